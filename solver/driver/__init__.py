"""A question taken apart into problems for the engine, and their answers joined to one.

Imports solver.engine and below.
"""
