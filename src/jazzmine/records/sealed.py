"""How a stored value says that it is sealed, for stores with and without keys."""

from __future__ import annotations

from typing import Any

from jazzmine.errors import DecryptionError

__all__ = ["SEALED_KEY", "opened_without_keys", "sealed_text"]

#: The only key of the JSON object that stands in place of what is sealed; its value is
#: `ID:BASE64`. No application uses it in metadata or in the value of an item.
SEALED_KEY = "jazzmine:sealed"


def sealed_text(value: Any) -> str | None:
    """Return what is sealed in an object, or None if it is not a sealed one."""
    if isinstance(value, dict) and SEALED_KEY in value:
        text = value[SEALED_KEY]
        return text if isinstance(text, str) else ""
    return None


def opened_without_keys(name: str, sealed: str) -> DecryptionError:
    """Return the error of a sealed value in a store without keys.

    Args:
        name: what it is.
        sealed: as `sealed_text` returns it.
    """
    key_id = sealed.partition(":")[0][:64]
    return DecryptionError(
        f"{name} is encrypted with the key {key_id!r}, and this store was opened without keys: pass"
        " encryption=…, or set JAZZMINE_ENCRYPTION"
    )
