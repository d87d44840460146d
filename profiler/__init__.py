"""What the host really costs: hardware discovery, microbenchmarks side by side on every rank, and the fit of a CostModel."""
