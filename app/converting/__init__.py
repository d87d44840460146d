"""Model documents from the configurations of others: what each says of tables and dense layers, and what it can't carry over."""
