"""Why no plan exists, and repairs that were verified by solving with them.

Imports solver.driver and below.
"""
