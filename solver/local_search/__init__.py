"""Plans found by annealing and by exchanges between pairs of devices, compiled.

Imports solver.relaxation and below.
"""
