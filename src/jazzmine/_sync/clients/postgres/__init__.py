"""Connections to PostgreSQL: statements, deadlines, fences and migrations."""
