"""By which keys the states of an encrypted working memory are encrypted, and how that changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from functools import partial

from jazzmine._async.working_memory.store import WorkingMemoryStore
from jazzmine.deadline import Deadline
from jazzmine.encryption.used_keys import KeysFound
from jazzmine.errors import DecryptionError, LockTimeoutError

__all__ = ["iter_state_keys"]

# The longest time that a call takes, in s.
_TIMEOUT = 30.0


async def iter_state_keys(store: WorkingMemoryStore, *, rekeys: bool) -> AsyncIterator[KeysFound]:
    """Yield by which keys the states of an encrypted working memory are encrypted, one at a time.

    Args:
        store: an open store with keys.
        rekeys: whether states of other keys are encrypted with the first one, which is a save.
    """
    form = store.form
    for conversation_id in await store.backend.conversations(Deadline(_TIMEOUT)):
        stored = await store.backend.load(conversation_id, Deadline(_TIMEOUT))
        if not stored.mark:
            continue
        key_id = form.key_id(stored)
        found = KeysFound("states", Counter([key_id]), [])
        try:
            if rekeys:
                rekeyed = partial(form.rekeyed, conversation_id)
                await store._change(conversation_id, rekeyed, parse=False)
        except (DecryptionError, LockTimeoutError) as error:
            found.refused.append(str(error))
        yield found
