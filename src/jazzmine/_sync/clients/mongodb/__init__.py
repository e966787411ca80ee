"""The client of a MongoDB server, and the creation of its indexes."""
