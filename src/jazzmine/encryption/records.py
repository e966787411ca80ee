"""Encrypt the records of a message store before they become JSON, and decrypt stored ones.

All encrypted fields of a record are one JSON text, which is encrypted as one value and is stored
in the record's `metadata`. So a record is encrypted or plain as a whole, and does not show its
empty fields or the number of keys of its metadata.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic_core import from_json, to_json

from jazzmine.encryption.fields import ENCRYPTED, PARTS
from jazzmine.encryption.keyring import Keyring, context, require_accepted
from jazzmine.errors import ConfigurationError, DecryptionError
from jazzmine.records.base import Record, Snapshot
from jazzmine.records.encrypted import ENCRYPTED_KEY, encrypted_text
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import LLMCallRecord, ToolTrace, TurnTrace
from jazzmine.records.usage import TraceFilter

__all__ = ["RecordCodec", "require_readable"]

AnyRecord = TypeVar("AnyRecord", bound=Record)

_NAMES: dict[type[Record], str] = {
    Conversation: "conversation",
    Message: "message",
    TurnTrace: "trace",
}

# The stored `errors` of a failed turn.
_SOME_ERRORS = [""]


class RecordCodec:
    """Encrypts and decrypts records with the keys of a store.

    Args:
        keyring: the keys.
        accepts_plain: whether a record that is not encrypted is read as it is.
    """

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

    def decrypt(self, record: Record, record_id: str, conversation_id: str | None) -> None:
        """Set the encrypted fields of a record that was just read.

        Args:
            record: as it is stored.
            record_id: the id with which it was found.
            conversation_id: the conversation that was asked for; a record of another conversation
                does not open. None takes the record's own.

        Raises:
            DecryptionError: it does not open, or is not encrypted.
        """
        kind, metadata = type(record), vars(record)["metadata"]
        name = f"{_NAMES[kind]} {record_id!r}"
        text = encrypted_text(metadata)
        if text is None:
            require_accepted(self._accepts_plain, name)
            return
        owner = _owner(record) if conversation_id is None else conversation_id
        bound_to = context(_NAMES[kind], "fields", owner, record_id)
        plain = self.keyring.decrypt_text(text, bound_to, name)
        vars(record)["metadata"] = {}
        try:
            is_whole = _uncover(record, from_json(plain))
        except ValueError:
            raise DecryptionError(f"{name} has encrypted fields that cannot be read") from None
        if len(metadata) > 1 or not is_whole:
            raise DecryptionError(
                f"{name} was changed: values that are not encrypted are beside its encrypted ones"
            )

    def key_id(self, record: Record) -> str | None:
        """Return the id of the key that a stored record is encrypted with; None if it is plain."""
        text = encrypted_text(vars(record)["metadata"])
        return None if text is None else text.partition(":")[0]


def require_readable(where: TraceFilter) -> None:
    """Raise if a filter names an encrypted field: nothing can be found by it.

    Raises:
        ConfigurationError: it names one.
    """
    for kind, wanted in ((ToolTrace, where.tool), (LLMCallRecord, where.llm_call)):
        hidden = sorted(set(wanted or ()) & {*ENCRYPTED[kind], *PARTS.get(kind, ())})
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
    for name in PARTS.get(type(record), ()):
        parts = [_values(part) for part in getattr(record, name)]
        if any(parts):
            values[name] = parts
    return values


def _covered(record: AnyRecord, more: dict[str, Any]) -> AnyRecord:
    """Return a copy of a record with the stored values in place of its encrypted fields."""
    covered = {**ENCRYPTED[type(record)], **more}
    for name in PARTS.get(type(record), ()):
        covered[name] = [_covered(part, {}) for part in getattr(record, name)]
    if isinstance(record, TurnTrace) and record.errors:
        covered["errors"] = _SOME_ERRORS
    return record.model_copy(update=covered)


def _uncover(record: Record, values: Any) -> bool:
    """Set the encrypted fields of a record, and those of the records in it.

    Returns:
        Whether nothing was stored in place of encrypted fields that does not belong there.

    Raises:
        ValueError: a value is none of its field's.
    """
    kind, empties = type(record), ENCRYPTED[type(record)]
    if not isinstance(values, dict):
        raise ValueError("it is not an object")
    if kind is TurnTrace and "errors" in values:
        if vars(record)["errors"] != _SOME_ERRORS:
            return False
        vars(record)["errors"] = []
    for name in empties.keys() & record.__pydantic_fields_set__:  # the others have their default
        if vars(record)[name] != empties[name]:
            return False
    for name, value in values.items():
        if name in empties:
            if type(value) is str and type(empties[name]) is str:
                vars(record)[name] = value  # any text is one of such a field
            else:
                record.__pydantic_validator__.validate_assignment(record, name, value)
    for name in PARTS.get(kind, ()):
        parts = vars(record)[name]
        given = values.get(name) or [{}] * len(parts)
        if len(given) != len(parts) or not all(map(_uncover, parts, given)):
            return False
    return True
