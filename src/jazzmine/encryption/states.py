"""The form in which a working memory is stored: JSON, or JSON that is encrypted as a whole."""

from __future__ import annotations

import logging

from pydantic import ValidationError

from jazzmine.encryption.keyring import Keyring, context, require_accepted
from jazzmine.records.encrypted import ENCRYPTED_KEY, encrypted_without_keys
from jazzmine.records.memory_json import from_json, to_json
from jazzmine.records.stored_memory import Data, Stored
from jazzmine.records.unknown_fields import FORMAT
from jazzmine.records.working_memory import WorkingMemory

logger: logging.Logger = logging.getLogger(__name__)

# Versions without encryption refuse this number, and leave the state as it is.
_ENCRYPTED_FORMAT = 2

_HEAD = b'{"format":%d,"%b":"' % (_ENCRYPTED_FORMAT, ENCRYPTED_KEY.encode())
_END = b'"}'


class StateForm:
    """Writes and reads working memories, as plain JSON without a keyring.

    An encrypted state is bound to its conversation and to the user that is kept beside it.
    """

    def __init__(self, keyring: Keyring | None, accepts_plain: bool = False) -> None:
        self.keyring = keyring
        #: The number of the format, which is kept beside the state.
        self.format: int = FORMAT if keyring is None else _ENCRYPTED_FORMAT
        self._accepts_plain = accepts_plain

    def written(self, memory: WorkingMemory) -> bytes:
        """Return a working memory as it is stored."""
        data = to_json(memory)
        if self.keyring is None:
            return data
        return _encrypted(self.keyring, data, memory.conversation_id, memory.user_id)

    def read(
        self, conversation_id: str, stored: Stored, kind: type[WorkingMemory]
    ) -> WorkingMemory | None:
        """Return the working memory that was stored; log one that cannot be read, and return None.

        Raises:
            DecryptionError: it does not open, is not encrypted, or there are no keys.
            NewerFormatError: a newer version of this library wrote it.
        """
        opened = self.opened(conversation_id, stored)
        try:
            return from_json(opened, kind)
        except ValidationError as error:
            logger.error(
                "the working memory of conversation %r cannot be read (%s): the conversation"
                " starts anew",
                conversation_id,
                "; ".join(f"{e['type']} at {e['loc']}" for e in error.errors()[:3]),
            )
            return None

    def rekeyed(self, conversation_id: str, stored: Stored) -> Data:
        """Return what is stored, encrypted with the first key; itself if it is. Raise as `read`."""
        assert self.keyring is not None
        if stored.data is None or self.key_id(stored) == self.keyring.first_id:
            return stored.data
        opened = self.opened(conversation_id, stored)
        return _encrypted(self.keyring, opened, conversation_id, stored.user_id)

    def key_id(self, stored: Stored) -> str | None:
        """Return the id of the key of a stored state; None if it is plain."""
        text = _encrypted_text(stored)
        return None if text is None else text.partition(":")[0]

    def opened(self, conversation_id: str, stored: Stored) -> bytes:
        """Return the JSON of what is stored; raise as `read`."""
        text = _encrypted_text(stored)
        name = f"the working memory of conversation {conversation_id!r}"
        if self.keyring is not None and text is not None:
            context = _context(conversation_id, stored.user_id)
            return self.keyring.decrypt_text(text, context, name)
        if text is not None:
            raise encrypted_without_keys(name, text)
        if self.keyring is not None:
            require_accepted(self._accepts_plain, name)
        assert isinstance(stored.data, bytes)
        return stored.data


def _encrypted(keyring: Keyring, data: bytes, conversation_id: str, user_id: str) -> bytes:
    text = keyring.encrypt_text(data, _context(conversation_id, user_id))
    return b"%b%b%b" % (_HEAD, text.encode(), _END)


def _encrypted_text(stored: Stored) -> str | None:
    data = stored.data
    if not isinstance(data, bytes) or not data.startswith(_HEAD):
        return None
    return data[len(_HEAD) :].removesuffix(_END).decode(errors="replace")


def _context(conversation_id: str, user_id: str) -> bytes:
    return context("working memory", "state", conversation_id, user_id)
