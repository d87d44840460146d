"""The proven lower bound. Imports solver.model and solver.presolve."""
