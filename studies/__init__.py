"""Many questions at once: what-if sweeps, how large a job must be, which host and placement suit a model."""
