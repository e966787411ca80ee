"""Benchmarks: one module for each question."""
