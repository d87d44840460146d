"""Which points are measured."""
