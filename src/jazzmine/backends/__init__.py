"""The back ends: everything about each that does not wait."""
