"""An equal problem that is easier to solve.

Imports solver.model and below.
"""
