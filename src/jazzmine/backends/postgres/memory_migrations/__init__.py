"""The migrations; each file runs once, in the order of the numbers."""
