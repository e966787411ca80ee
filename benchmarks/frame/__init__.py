"""The shared parts of the benchmarks: environments, records, races and tables."""
