"""Redis: names of keys, scripts and errors."""
