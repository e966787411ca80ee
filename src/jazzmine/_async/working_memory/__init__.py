"""Working-memory stores: one module for the promise, one for each back end."""
