"""What the host really costs: points to measure (design), microbenchmarks on every rank (measure), and the fit of a CostModel (fit)."""
