"""Adapters that let agent frameworks keep their sessions in a message store.

Each module imports its framework, so import the one that you use: none is imported here.
"""
