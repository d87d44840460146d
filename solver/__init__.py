"""From a question to a plan with a proven gap, or to a proof that there is none. `solve.solve_question` is the entry.

Imports placement and solvers; neither torch nor anything of the service.
"""
