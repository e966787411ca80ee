"""By which keys the states of an encrypted working memory are encrypted, and how that changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

from jazzmine._async.working_memory.backend import Stored
from jazzmine._async.working_memory.store import WorkingMemoryStore
from jazzmine.deadline import Deadline
from jazzmine.encryption.used_keys import KeysFound
from jazzmine.errors import DecryptionError

__all__ = ["iter_state_keys"]

# The longest time that a call takes, in s.
_TIMEOUT = 30.0


async def iter_state_keys(store: WorkingMemoryStore, *, rekeys: bool) -> AsyncIterator[KeysFound]:
    """Yield by which keys the states of an encrypted working memory are encrypted, one at a time.

    Args:
        store: an open store with keys.
        rekeys: whether what another key than the first has encrypted is encrypted with the first
            one, in place of the very state that was decrypted; when it expires does not change.
            Otherwise what a key of the store has encrypted is decrypted, to see whether it opens.
    """
    for conversation_id in await store.backend.conversations(Deadline(_TIMEOUT)):
        stored = await store.backend.load(conversation_id, Deadline(_TIMEOUT))
        if not isinstance(stored.data, bytes):
            continue
        form, key_id = store.form, store.form.key_id(stored.data)
        found = KeysFound("states", Counter([key_id]), [])
        try:
            if not rekeys and form.keyring is not None and key_id in form.keyring.ids:
                form.rekeyed(stored.data, conversation_id, stored.user_id)
            while rekeys and not await _is_rekeyed(store, conversation_id, stored):
                stored = await store.backend.load(conversation_id, Deadline(_TIMEOUT))
        except DecryptionError as error:
            found.refused.append(str(error))
        yield found


async def _is_rekeyed(store: WorkingMemoryStore, conversation_id: str, read: Stored) -> bool:
    """Encrypt a state with the first key; return False if another one was saved meanwhile."""
    form, data = store.form, read.data
    assert form.keyring is not None
    if not isinstance(data, bytes) or form.key_id(data) == form.keyring.first_id:
        return True
    encrypted = form.rekeyed(data, conversation_id, read.user_id)
    deadline = Deadline(_TIMEOUT)
    return await store.backend.replace(conversation_id, read, encrypted, form.format, deadline)
