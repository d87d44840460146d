"""Everything a person meets: the command line, the REST API and its durable jobs, the dashboard, the reports."""
