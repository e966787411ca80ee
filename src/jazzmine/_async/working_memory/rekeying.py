"""Encrypt the states of an encrypted working memory with its first key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from jazzmine._async.working_memory.store import WorkingMemoryStore
from jazzmine.deadline import Deadline
from jazzmine.encryption.used_keys import Rekeyed
from jazzmine.errors import DecryptionError, LockTimeoutError

# The longest time that a call takes, in s.
_TIMEOUT = 30.0


async def rekeyed_states(store: WorkingMemoryStore) -> AsyncIterator[Rekeyed]:
    """Encrypt each state of another key with the first one, which is a save; yield the result."""
    form = store.form
    assert form.keyring is not None
    for conversation_id in await store.backend.conversations(Deadline(_TIMEOUT)):
        stored = await store.backend.load(conversation_id, Deadline(_TIMEOUT))
        if not stored.mark:
            continue
        before, refused = form.key_id(stored) == form.keyring.first_id, list[str]()
        try:
            rekeyed = partial(form.rekeyed, conversation_id)
            await store._change(conversation_id, rekeyed, parse=False)
        except (DecryptionError, LockTimeoutError) as error:
            refused.append(str(error))
        yield Rekeyed("states", 1, int(before), refused)
