"""Long-term memories: one module for the promise, one for each back end."""
