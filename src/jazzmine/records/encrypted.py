"""The form of an encrypted value, for stores with and without keys."""

from __future__ import annotations

from typing import Any

from jazzmine.errors import DecryptionError

#: The only key of the JSON object in place of an encrypted value; its value is `ID:BASE64`. No
#: application uses it in metadata or in the value of an item.
ENCRYPTED_KEY = "jazzmine:sealed"


def encrypted_text(value: Any) -> str | None:
    """Return the encrypted text of an object, or None if the object is not encrypted."""
    if isinstance(value, dict) and ENCRYPTED_KEY in value:
        text = value[ENCRYPTED_KEY]
        return text if isinstance(text, str) else ""
    return None


def encrypted_without_keys(name: str, encrypted: str) -> DecryptionError:
    """Return the error of an encrypted value in a store without keys.

    Args:
        name: the record, for the text of the error.
        encrypted: as `encrypted_text` returns it.
    """
    key_id = encrypted.partition(":")[0][:64]
    return DecryptionError(
        f"{name} is encrypted with the key {key_id!r}, and this store was opened without keys: pass"
        " encryption=…, or set JAZZMINE_ENCRYPTION"
    )
