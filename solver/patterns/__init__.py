"""What single devices can hold: the pricing problem and the covering program over patterns.

Imports solver.relaxation and below.
"""
