"""Blocking work on files: each function is one step that either world runs as a whole."""
