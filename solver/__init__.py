"""From a question to a plan with a proven gap, or to a proof that there is none.

options -> problem -> bound, search, exact -> plan | explanation
"""
