"""Compare the speed of the library with the previous version: one module for each question."""
