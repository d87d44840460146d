"""A plan's proof checked, without the solver's code: what no placement that the audit accepts can beat.

Imports nothing of the solver. docs/explanation/bounds.md states what is checked and proves it.
"""
