"""What single devices can hold, and the covering program over it. Imports solver.relaxation and below."""
