"""Plans found by annealing. Imports solver.relaxation and below."""
