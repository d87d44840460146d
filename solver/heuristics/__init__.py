"""Plans made in a moment and plans made better: greedy, dives, large neighbourhoods.

Imports solver.patterns, solver.cp_sat and below.
"""
