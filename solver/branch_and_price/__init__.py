"""The bound raised to the plan on small problems, by branching over options and makespans.

Imports solver.patterns and below.
"""
