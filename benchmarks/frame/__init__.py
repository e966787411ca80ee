"""The shared parts of the benchmarks: environments, worker processes, races and tables."""
