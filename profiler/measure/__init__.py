"""Microbenchmarks: what the ranks of a profile run."""
