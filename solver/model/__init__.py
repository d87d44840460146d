"""The integer program of a question as arrays, and an assignment of it read back. Imports placement and solver's result types, nothing of the search."""
