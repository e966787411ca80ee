"""How PostgreSQL lays the records out: statements, rows and migrations. Pure, no I/O."""
