"""Studies: the list, one of them with its chart and table, and two beside each other."""
