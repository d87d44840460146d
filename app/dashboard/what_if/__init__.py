"""A plan under other circumstances."""
