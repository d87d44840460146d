"""Alembic migrations. They run by themselves when the service or a worker starts."""
