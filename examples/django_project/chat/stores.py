"""The stores of this process, opened at their first use and closed when the process ends.

Opening them at import, or in `AppConfig.ready`, would open them for every management command,
and twice under `runserver`, whose autoreloader is another process.
"""

from __future__ import annotations

import atexit
import threading

from django.conf import settings

from jazzmine.sync import MessageStore, WorkingMemoryStore

# Several threads may ask for a store at once, and only one of them may open it.
_opening = threading.Lock()
_message_store: MessageStore | None = None
_working_memory: WorkingMemoryStore | None = None


def message_store() -> MessageStore:
    """Return the message store of the settings."""
    global _message_store
    with _opening:
        if _message_store is None:
            _message_store = MessageStore.initialize(settings.JAZZMINE["message_store"])
        return _message_store


def working_memory() -> WorkingMemoryStore:
    """Return the working memory of the settings."""
    global _working_memory
    with _opening:
        if _working_memory is None:
            _working_memory = WorkingMemoryStore.initialize(settings.JAZZMINE["working_memory"])
        return _working_memory


@atexit.register
def close() -> None:
    """Close the open stores; a later use opens a new one."""
    global _message_store, _working_memory
    with _opening:
        for store in (_message_store, _working_memory):
            if store is not None:
                store.close()
        _message_store = _working_memory = None
