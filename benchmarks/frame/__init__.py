"""What every question shares: environments, worker processes, races and tables."""
