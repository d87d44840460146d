"""The proof that a plan carries: weights for placement/proof/, found by linear programs over the choices that it derives.

Imports solver.relaxation and below, and knows no program of the search: a proof is made of a plan, and needs nothing of how it was found.
"""
