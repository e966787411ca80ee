"""The PostgreSQL back end: statements, rows, errors and migrations, without their I/O."""
