"""The child programs of the service. Each reads one document, reports progress as JSON lines and writes one result:

python -m emplace.app.steps.solve INPUT OUTPUT
"""
