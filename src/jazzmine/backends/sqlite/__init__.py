"""What is known about SQLite: its file, its connections, its statements and rows."""
