"""How fast the library is, beside the version before it: one module a question."""
