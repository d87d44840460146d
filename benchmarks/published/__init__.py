"""Predicted times held against those that others published, of hosts that are not here."""
