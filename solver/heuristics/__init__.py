"""Plans made and bettered with programs. Imports solver.patterns and below."""
