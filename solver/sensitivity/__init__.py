"""What more hardware may bring a plan: which changes there are, and what the bound's dual prices say of each.

Imports solver.infeasibility and below.
"""
