"""Encrypt the items of a long-term memory, and decrypt their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from jazzmine.encryption.keyring import Keyring, context, require_accepted
from jazzmine.errors import DecryptionError
from jazzmine.records.encrypted import ENCRYPTED_KEY, encrypted_text
from jazzmine.records.item_paths import split_path
from jazzmine.records.item_rows import ItemChange, ItemRow, ItemVersion, path_text
from jazzmine.records.rows import body_of

if TYPE_CHECKING:
    from jazzmine.config import BackendConfig

# The beginning of encrypted bytes, before `ID:`.
_HEAD = b"jazzmine:sealed:"

_NONCE_BYTES = 12


def item_codec(config: BackendConfig) -> ItemCodec | None:
    """Return the codec of a long-term memory; None if its configuration has no keys."""
    if config.keyring is None:
        return None
    return ItemCodec(config.keyring, config.encryption_accepts_plain)


class ItemCodec:
    """Encrypts and decrypts items; `accepts_plain` reads plain values, too.

    The value is encrypted together with the nonce of the data, so that it does not open beside the
    data of another version of the item. A vector is encrypted by itself.
    """

    def __init__(self, keyring: Keyring, accepts_plain: bool) -> None:
        self.keyring = keyring
        self._accepts_plain = accepts_plain

    def encrypted(self, change: ItemChange) -> ItemChange:
        """Return a change with its value, data and vector encrypted."""
        if change.item is None:
            return change
        value, data = self._encrypted_value(change.path, change.item.value, change.item.data)
        item = change.item.model_copy(update={"value": value, "data": data})
        vector = (
            None if change.vector is None else self._bytes(change.path, "vector", change.vector)
        )
        return replace(change, item=item, vector=vector)

    def decrypted(self, rows: Sequence[ItemRow], reads: str = "items") -> list[ItemRow]:
        """Return decrypted rows with the columns `reads`, or raise `DecryptionError`."""
        if reads == "vectors":
            return [self._opened_vector(row) for row in rows]
        if reads == "all":
            return [self._opened_all(row) for row in rows]
        return [self._opened(row, has_data=reads == "items") for row in rows]

    def key_id(self, row: ItemRow) -> str | None:
        """Return the id of the key of the value of a row; None if it is plain."""
        text = encrypted_text(body_of(row))
        return None if text is None else text.partition(":")[0]

    def vector_key_id(self, row: ItemRow) -> str | None:
        """Return the id of the key of the vector at the end of a row; None if it is plain."""
        parts = _parts(row[-1])
        return None if parts is None else parts[0]

    def rekeyed(self, row: ItemRow) -> ItemVersion:
        """Return value and data of a row, encrypted with the first key; raise as `decrypted`."""
        opened, path = self._opened(row, has_data=True), path_text(row)
        encrypted, encrypted_data = self._encrypted_value(path, value_of(opened), opened[2])
        return ItemVersion(path, row[8], {"value": encrypted, "data": encrypted_data})

    def rekeyed_vector(self, row: ItemRow) -> ItemVersion:
        """Return the vector at the end of a row, encrypted with the first key."""
        path = path_text(row)
        vector = self._bytes(path, "vector", self._opened_bytes(path, "vector", row[-1]))
        return ItemVersion(path, row[8], {"vector": vector})

    def _encrypted_value(
        self, path: str, value: dict[str, Any], data: bytes | None
    ) -> tuple[dict[str, Any], bytes | None]:
        words: dict[str, Any] = {"value": value}
        if data is not None:
            data = self._bytes(path, "data", data)
            words["data"] = _nonce(data)
        text = self.keyring.encrypt_text(to_json(words), _context(path, "value"))
        return {ENCRYPTED_KEY: text}, data

    def _opened(self, row: ItemRow, *, has_data: bool) -> ItemRow:
        _, _, data, *rest = row
        path, value = path_text(row), body_of(row)
        name, encrypted = _name(path), encrypted_text(value)
        if encrypted is None:
            require_accepted(self._accepts_plain, name)
            return row
        words = from_json(self.keyring.decrypt_text(encrypted, _context(path, "value"), name))
        if len(value) > 1 or (has_data and words.get("data") != _nonce(data)):
            raise DecryptionError(f"{name} was changed: its value and its data are not one version")
        if data is not None:
            data = self._opened_bytes(path, "data", data)
        return path, words["value"], data, *rest

    def _opened_vector(self, row: ItemRow) -> ItemRow:
        path = path_text(row)
        return path, row[1], self._opened_bytes(path, "vector", row[2]), *row[3:]

    def _opened_all(self, row: ItemRow) -> ItemRow:
        *fields, vector = self._opened(row, has_data=True)
        if vector is not None:
            vector = self._opened_bytes(path_text(row), "vector", vector)
        return *fields, vector

    def _bytes(self, path: str, field: str, plain: bytes) -> bytes:
        encrypted = self.keyring.encrypt(plain, _context(path, field))
        return b"%b%b:%b" % (_HEAD, self.keyring.first_id.encode(), encrypted)

    def _opened_bytes(self, path: str, field: str, stored: bytes) -> bytes:
        name, parts = f"the {field} of {_name(path)}", _parts(stored)
        if parts is None:
            require_accepted(self._accepts_plain and field == "vector", name)
            return stored
        return self.keyring.decrypt(*parts, _context(path, field), name)


def _parts(stored: bytes) -> tuple[str, bytes] | None:
    """Return the id of the key of encrypted bytes, and the ciphertext; None if they are plain."""
    if not stored.startswith(_HEAD):
        return None
    key_id, _, encrypted = bytes(stored[len(_HEAD) :]).partition(b":")
    return key_id.decode(errors="replace"), encrypted


def _nonce(data: bytes | None) -> str | None:
    """Return the nonce of encrypted data; "" of plain data, None of none."""
    if data is None:
        return None
    parts = _parts(data)
    return "" if parts is None else parts[1][:_NONCE_BYTES].hex()


def _name(path: str) -> str:
    namespace, key = split_path(path)
    return f"the item {key!r} of {namespace!r}"


def _context(path: str, field: str) -> bytes:
    return context("item", field, path, "")


def value_of(row: ItemRow) -> dict[str, Any]:
    """Return the value of an opened row; {} if it is no object."""
    value = body_of(row)
    return value if isinstance(value, dict) else {}
