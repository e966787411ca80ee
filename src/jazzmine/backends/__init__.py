"""The back ends: a package for each, with the code that both APIs share."""
