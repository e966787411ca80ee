"""Encryption at rest: the keys, the encrypted fields, and the codecs."""

from jazzmine.encryption.keyring import Keyring, keyring_of

__all__ = ["Keyring", "keyring_of"]
