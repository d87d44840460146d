"""The `emplace` command. One module per command; main.py puts them together."""
