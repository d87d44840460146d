"""The proven lower bound: the class relaxation by column generation, its cuts and reduced-cost fixing.

Imports solver.presolve and below.
"""
