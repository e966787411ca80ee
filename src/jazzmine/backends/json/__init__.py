"""The JSON back end: the form of the file, its tables in memory, and how it is replaced."""
