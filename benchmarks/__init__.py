"""Reproducible comparisons. Each prints its figures; docs/benchmarks.md says how they were taken."""
