"""Long work: durable jobs, the worker that runs them, and the child processes that do them."""
