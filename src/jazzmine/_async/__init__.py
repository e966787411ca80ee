"""The code that waits: for a disk, a server, a lock or another process."""
