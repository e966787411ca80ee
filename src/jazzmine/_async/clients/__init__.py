"""The clients of the servers: connections, deadlines and repetition."""
