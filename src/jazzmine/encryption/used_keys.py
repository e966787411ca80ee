"""The keys that stored values were encrypted with, and the refusal of a wrong one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pydantic import ValidationError

from jazzmine.encryption.keyring import Keyring
from jazzmine.errors import ConfigurationError, DecryptionError

#: The number of records of a kind that are decrypted when a store is opened.
SAMPLED = 20


class Rekeyed(NamedTuple):
    """What became of some values that are to be encrypted with the first key.

    Attributes:
        kind: the kind of the values, such as "messages".
        total: their number.
        before: how many were encrypted with the first key before.
        refused: a text for each value that was not encrypted anew.
    """

    kind: str
    total: int
    before: int
    refused: list[str]


def require_right_keys(
    keyring: Keyring,
    rows: Iterable[Any],
    key_id: Callable[[Any], str | None],
    read: Callable[[Any], object],
) -> None:
    """Raise `ConfigurationError` if a key opens none of the rows under its id.

    `key_id` returns the id of the key of a row, None if it is plain; `read` decrypts the row.
    """
    right: set[str] = set()
    wrong: set[str] = set()
    for row in rows:
        try:
            used = key_id(row)
            if used in keyring.ids and used not in right:
                wrong.add(used)
                read(row)
                right.add(used)
        except (DecryptionError, ValidationError):
            continue
    if refused := sorted(wrong - right):
        raise ConfigurationError(
            f"the key {refused[0]!r} opens nothing of the sample that a key with this id has"
            " encrypted in this store: it is another key with that id, or the records were changed"
        )
