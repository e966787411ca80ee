"""The schema, step by step; each file runs once, in the order of its number."""
