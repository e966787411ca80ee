"""The migrations of long-term memory; each file runs once, in the order of the numbers."""
