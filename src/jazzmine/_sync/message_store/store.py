"""The message store: its public methods, and the checks that all back ends share."""

from __future__ import annotations

import os
from collections.abc import Mapping

from jazzmine._sync.message_store.conversations import ConversationMethods
from jazzmine._sync.message_store.erasure import ErasureMethods
from jazzmine._sync.message_store.log import LogMethods
from jazzmine._sync.message_store.messages import MessageMethods
from jazzmine._sync.message_store.search import SearchMethods
from jazzmine._sync.message_store.traces import TraceMethods
from jazzmine.records.arguments import require_id

__all__ = ["MessageStore"]


class MessageStore(
    ErasureMethods,
    SearchMethods,
    TraceMethods,
    LogMethods,
    MessageMethods,
    ConversationMethods,
):
    """Conversations, their messages, and a trace of every turn.

    On every back end:

    - Messages are ordered by `timestamp`, equal ones by the order in which their ids were
      first stored; storing one again never moves it.
    - A write that returned is durable, and each may be repeated: nothing is doubled. One that
      raised changed nothing, except that after `StoreUnavailableError` it is not known whether
      it took effect.
    - A message never moves to another conversation, nor a trace to another message.
    - `after` is the id of the last record of the page before; `limit=None` is no limit.
    - What a method returns belongs to the caller.

    Every method raises `TypeError` for an id or a record of another type, `ValidationError`
    for a value that the back ends cannot hold, `ValueError` for a number out of range,
    `StoreClosedError` after `close()`, `StoreUnavailableError` when the server cannot be
    reached, and `OSError` when the file of a JSON store cannot be read or written.
    """

    scope = "jazzmine.message_store"

    @classmethod
    def initialize(
        cls, config: Mapping[str, object] | str | os.PathLike[str] | None = None
    ) -> MessageStore:
        """Open a store.

        Args:
            config: a mapping with `storage` ("json" by default) and the options of that back
                end, a URL such as `json:messages.json`, or a path whose end says what is there,
                such as `Path("agent.db")`; None takes the URL in the environment variable
                JAZZMINE_MESSAGE_STORE, or else `json:messages.json`.

        Raises:
            ConfigurationError: the configuration has an unknown key or a wrong value.
            ImportError: the back end's driver is not installed.
            StoreUnavailableError: the server cannot be reached.
            OSError, JSONDecodeError, ValidationError: the file cannot be read.
        """
        # Only a program that opens a store pays for this import.
        from jazzmine._sync.factory import new_message_store
        from jazzmine.config import message_store_config

        store: MessageStore = new_message_store(message_store_config(config))
        return store._initialized()

    def scoped(self, *, user_id: str) -> MessageStore:
        """Return a store that sees and changes what is in this user's conversations alone.

        It uses the same connections, and closing it closes nothing else; make one for each request.
        Records of other users have the same results as records that are not stored.

        Args:
            user_id: whose records.

        Raises:
            ScopeError: this store is scoped to another user.
        """
        from jazzmine._sync.message_store.scoped import ScopedMessageStore

        return ScopedMessageStore(self, require_id("user_id", user_id))
