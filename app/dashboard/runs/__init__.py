"""Predicted against measured: one run, and all runs of a host."""
