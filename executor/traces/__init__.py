"""Files of recorded batches: what was looked up, read in bounded memory, measured, and trained on."""
