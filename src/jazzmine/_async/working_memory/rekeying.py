"""Encrypt the states of an encrypted working memory with its first key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from jazzmine._async.working_memory.store import WorkingMemoryStore
from jazzmine.deadline import Deadline
from jazzmine.encryption.states import StateForm
from jazzmine.encryption.used_keys import Rekeyed
from jazzmine.errors import DecryptionError, LockTimeoutError
from jazzmine.records.stored_memory import Data, Stored

# The longest time that a call takes, in s.
_TIMEOUT = 30.0


async def rekeyed_states(store: WorkingMemoryStore) -> AsyncIterator[Rekeyed]:
    """Encrypt each state of another key with the first one, which is a save; yield the result."""
    for conversation_id in await store.backend.conversations(Deadline(_TIMEOUT)):
        stored = await store.backend.load(conversation_id, Deadline(_TIMEOUT))
        if not isinstance(stored.data, bytes):
            continue
        form, refused = store.form, list[str]()
        assert form.keyring is not None
        before = form.key_id(stored.data) == form.keyring.first_id
        try:
            rekeyed = partial(_rekeyed, form, conversation_id)
            await store._updates.change(conversation_id, rekeyed, parse=False)
        except (DecryptionError, LockTimeoutError) as error:
            refused.append(str(error))
        yield Rekeyed("states", 1, int(before), refused)


def _rekeyed(form: StateForm, conversation_id: str, stored: Stored) -> Data:
    """Return a state encrypted with the first key; unchanged if it is, or if there is none."""
    data = stored.data
    if not isinstance(data, bytes) or form.keyring is None:
        return data
    is_first = form.key_id(data) == form.keyring.first_id
    return data if is_first else form.rekeyed(data, conversation_id, stored.user_id)
