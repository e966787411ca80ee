"""Encryption at rest: the keys, which values are encrypted with them, and how."""

from jazzmine.encryption.keyring import Keyring, keyring_of

__all__ = ["Keyring", "keyring_of"]
