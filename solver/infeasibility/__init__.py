"""Why no plan exists, and what would help. Imports solver.driver and below."""
