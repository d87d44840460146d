"""What the API and the dashboard share: the service's parts, a transaction a request, problem documents.

Imports app.jobs, app.database and below; neither app.api nor app.dashboard."""
