"""Words of texts, queries and rankings, for all back ends."""
