"""From samples to a cost model."""
