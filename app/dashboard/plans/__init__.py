"""The list of plans."""
