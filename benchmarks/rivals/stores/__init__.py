"""One small module for each library: how its store is used."""
