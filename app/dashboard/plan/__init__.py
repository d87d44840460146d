"""One plan: its page, its tables, its map."""
