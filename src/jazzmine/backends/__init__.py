"""The back ends: for each a package of the code that both APIs share."""
