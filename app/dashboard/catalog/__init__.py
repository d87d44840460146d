"""Models, hosts and profiles."""
