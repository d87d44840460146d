"""Emplace: where the embedding tables of a recommendation model live, how good that is, and what it takes."""
