"""Redis: names of keys, scripts, and what its errors mean."""
