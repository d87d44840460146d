"""The form of a new plan."""
