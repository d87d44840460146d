"""A question taken apart into problems, and their answers joined. Imports the engine and below."""
