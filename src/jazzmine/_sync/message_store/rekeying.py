"""Encrypt the records of an encrypted message store with its first key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from jazzmine._sync.message_store.backend import MessageBackend
from jazzmine._sync.message_store.records import StoredRecords
from jazzmine.encryption.records import RecordCodec
from jazzmine.encryption.used_keys import Rekeyed
from jazzmine.errors import DecryptionError
from jazzmine.records.base import RecordKind, Snapshot
from jazzmine.records.rows import Row, RowDecoder, row_id
from jazzmine.records.unreadable import reasons_of

_KINDS: Sequence[RecordKind] = ("conversations", "messages", "traces")

# So many records are encrypted anew in a step: others that write wait for some 10 ms.
_AT_ONCE = 200


def rekeyed_records(store: StoredRecords, codec: RecordCodec) -> Iterator[Rekeyed]:
    """Encrypt the records of other keys with the first one, and yield the result of some."""
    backend = store.backend
    size = max(_AT_ONCE, backend.deleted_at_once)
    for kind, rows in backend.iter_stored(_KINDS, size):
        first_id = codec.keyring.first_id
        others = [row_id(row) for row in rows if codec.key_id(row) != first_id]
        refused = _rekey(backend, codec, kind, store._decoder_of(kind), others)
        yield Rekeyed(kind, len(rows), len(rows) - len(others), refused)


def _rekey(
    backend: MessageBackend,
    codec: RecordCodec,
    kind: RecordKind,
    decoder: RowDecoder[Any],
    ids: list[str],
) -> list[str]:
    """Encrypt records with the first key; return why some were not."""
    refused: dict[str, str] = {}

    def change(row: Row) -> Snapshot[Any] | None:
        try:
            if codec.key_id(row) != codec.keyring.first_id:
                return codec.encrypted(Snapshot(decoder.record(row)))
        except DecryptionError as error:
            refused[row_id(row)] = str(error)
        except ValidationError as error:
            refused[row_id(row)] = f"{error.title}: {reasons_of(error)}"
        return None

    if ids:
        backend.rewrite(kind, ids, change)
    return list(refused.values())
