"""Long-term memories: the public store, and a module for each back end."""
