"""The overview of many jobs."""
