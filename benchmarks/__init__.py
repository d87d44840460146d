"""Reproducible comparisons. Each prints its figures; docs/reference/benchmarks.md says how they were taken."""
