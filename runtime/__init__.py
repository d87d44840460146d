"""The training program of one rank, and the life of the processes that run it."""
