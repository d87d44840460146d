"""The REST API: FastAPI over the stored resources and the job queue. It runs no long work itself."""
