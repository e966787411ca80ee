"""The JSON file: its lines, its tables in memory, and the file on the disk."""
