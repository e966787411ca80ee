"""Encrypt the records of a message store before they become JSON, and decrypt stored ones.

All encrypted fields of a record are one JSON text, which is encrypted as one value and is stored
in the record's `metadata`. So a record is encrypted or plain as a whole, and does not show its
empty fields or the number of keys of its metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import from_json, to_json

from jazzmine.encryption.fields import ENCRYPTED, PARTS
from jazzmine.encryption.keyring import Keyring, context, require_accepted
from jazzmine.errors import ConfigurationError, DecryptionError
from jazzmine.records.base import Record, Snapshot
from jazzmine.records.encrypted import ENCRYPTED_KEY, encrypted_text
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.rows import Row, body_of, row_id
from jazzmine.records.traces import LLMCallRecord, ToolTrace, TurnTrace
from jazzmine.records.usage import TraceFilter

if TYPE_CHECKING:
    from jazzmine.config import BackendConfig

AnyRecord = TypeVar("AnyRecord", bound=Record)

_NAMES: dict[type[Record], str] = {
    Conversation: "conversation",
    Message: "message",
    TurnTrace: "trace",
}

# The stored `errors` of a failed turn.
_SOME_ERRORS = [""]


NO_SEARCH = (
    "search and encryption exclude each other: a search index is not encrypted; without keys,"
    " `jazzmine index --off` removes it"
)


def record_codec(config: BackendConfig) -> RecordCodec | None:
    """Return the codec of a message store, which has no search; None without keys."""
    if config.keyring is None:
        return None
    if config.search_language is not None:
        raise ConfigurationError(NO_SEARCH)
    return RecordCodec(config.keyring, config.encryption_accepts_plain)


class RecordCodec:
    """Encrypts and decrypts records; `accepts_plain` reads plain ones, too."""

    def __init__(self, keyring: Keyring, accepts_plain: bool) -> None:
        self.keyring = keyring
        self._accepts_plain = accepts_plain

    def encrypted(self, snapshot: Snapshot[AnyRecord]) -> Snapshot[AnyRecord]:
        """Return a record with its encrypted values in its metadata, and empty fields."""
        record = snapshot.record
        record_id: str = getattr(record, "id")  # noqa: B009
        bound_to = context(_NAMES[type(record)], "fields", _owner(record), record_id)
        text = self.keyring.encrypt_text(to_json(_values(record)), bound_to)
        return Snapshot(_covered(record, {"metadata": {ENCRYPTED_KEY: text}}))

    def decrypted(
        self, kind: type[Record], rows: Sequence[Row], conversation_id: str | None
    ) -> list[dict[str, Any] | None]:
        """Return the bodies of rows with the decrypted values; None for one that is no object.

        The rows are not changed. A record of another conversation than `conversation_id` does not
        open; None takes each record's own. `DecryptionError` is raised for a plain one, too.
        """
        owner_field = "id" if kind is Conversation else "conversation_id"
        bodies: list[dict[str, Any] | None] = []
        for row in rows:
            body = body_of(row)
            if isinstance(body, dict):
                owner = conversation_id or str(body.get(owner_field))
                bodies.append(self._decrypted(kind, body, row_id(row), owner))
            else:
                bodies.append(None)
        return bodies

    def _decrypted(
        self, kind: type[Record], body: dict[str, Any], record_id: str, owner: str
    ) -> dict[str, Any]:
        name = f"{_NAMES[kind]} {record_id!r}"
        metadata: Any = body.get("metadata")
        text = encrypted_text(metadata)
        if text is None:
            require_accepted(self._accepts_plain, name)
            return body
        bound_to = context(_NAMES[kind], "fields", owner, record_id)
        values = from_json(self.keyring.decrypt_text(text, bound_to, name))
        del body["metadata"]
        try:
            if len(metadata) > 1:
                raise ValueError
            return _uncovered(kind, body, values)
        except ValueError:
            raise DecryptionError(
                f"{name} was changed: values that are not encrypted are beside its encrypted ones"
            ) from None

    def key_id(self, row: Row) -> str | None:
        """Return the id of the key that a row is encrypted with; None if it is plain."""
        body = body_of(row)
        text = encrypted_text(body.get("metadata")) if isinstance(body, dict) else None
        return None if text is None else text.partition(":")[0]


def require_readable(where: TraceFilter) -> None:
    """Raise `ConfigurationError` if a filter names an encrypted field."""
    for kind, wanted in ((ToolTrace, where.tool), (LLMCallRecord, where.llm_call)):
        hidden = sorted(set(wanted or ()) & {*ENCRYPTED[kind], *PARTS[kind]})
        if hidden:
            raise ConfigurationError(
                f"{', '.join(hidden)} of {kind.__name__} is encrypted in this store: traces cannot"
                " be found by it"
            )


def _owner(record: Record) -> str:
    return str(getattr(record, "id" if isinstance(record, Conversation) else "conversation_id"))


def _values(record: Record) -> dict[str, Any]:
    """Return the values of the encrypted fields, without those that are empty."""
    values: dict[str, Any] = {}
    for name, empty in ENCRYPTED[type(record)].items():
        value = getattr(record, name)
        if value != empty:
            values[name] = value
    for name in PARTS[type(record)]:
        parts = [_values(part) for part in getattr(record, name)]
        if any(parts):
            values[name] = parts
    return values


def _covered(record: AnyRecord, more: dict[str, Any]) -> AnyRecord:
    """Return a copy of a record with the stored values in place of its encrypted fields."""
    covered = {**ENCRYPTED[type(record)], **more}
    for name in PARTS[type(record)]:
        covered[name] = [_covered(part, {}) for part in getattr(record, name)]
    if isinstance(record, TurnTrace) and record.errors:
        covered["errors"] = _SOME_ERRORS
    return record.model_copy(update=covered)


def _uncovered(kind: type[Record], stored: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Return a stored record with its encrypted values and those of the records in it.

    Raise `ValueError` if a value is stored in place of an encrypted one that does not belong there.
    """
    empties = ENCRYPTED[kind]
    if kind is TurnTrace and "errors" in values:
        empties = {**empties, "errors": _SOME_ERRORS}
    if not isinstance(stored, dict):
        raise ValueError
    for name in empties.keys() & stored.keys():
        if stored[name] != empties[name]:
            raise ValueError
    whole = {**stored, **values}
    for name, part in PARTS[kind].items():
        parts = stored.get(name, [])
        if not isinstance(parts, list):
            raise ValueError
        given = values.get(name) or [{}] * len(parts)
        whole[name] = [_uncovered(part, *pair) for pair in zip(parts, given, strict=True)]
    return whole
