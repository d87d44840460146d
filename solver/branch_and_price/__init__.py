"""The bound raised to the plan on small problems. Imports solver.patterns and below."""
