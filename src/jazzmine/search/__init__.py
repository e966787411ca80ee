"""Words of texts, queries, and rankings: what all back ends have in common."""
