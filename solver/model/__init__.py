"""The integer program of a question as arrays: layouts, costs, and an assignment read back as shards.

Imports placement and nothing of the search.
"""
