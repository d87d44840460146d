"""The shared vocabulary: documents, bytes accounting, the step-time model, the audit and the built-in catalog.

Everything here is plain data and arithmetic. It imports neither torch nor ortools, and nothing of the other packages.
"""
