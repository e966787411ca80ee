"""The MongoDB back end: documents, indexes, queries and pipelines. It does no I/O."""
