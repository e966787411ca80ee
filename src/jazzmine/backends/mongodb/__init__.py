"""How MongoDB lays the records out: documents, indexes, queries, pipelines."""
