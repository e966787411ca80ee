"""Benchmarks: one module for each question, which compares the library with jazzmine 0.1.42."""
