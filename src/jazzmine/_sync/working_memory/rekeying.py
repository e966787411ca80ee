"""By which keys the states of an encrypted working memory are encrypted, and how that changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from jazzmine._sync.working_memory.store import WorkingMemoryStore
from jazzmine.deadline import Deadline
from jazzmine.encryption.states import StateForm
from jazzmine.encryption.used_keys import KeysFound
from jazzmine.errors import DecryptionError, LockTimeoutError
from jazzmine.records.stored_memory import Data, Stored

__all__ = ["iter_state_keys"]

# The longest time that a call takes, in s.
_TIMEOUT = 30.0


def iter_state_keys(store: WorkingMemoryStore, *, rekeys: bool) -> Iterator[KeysFound]:
    """Yield by which keys the states of an encrypted working memory are encrypted, one at a time.

    Args:
        store: an open store with keys.
        rekeys: whether states of other keys are encrypted with the first one, which is a save.
    """
    for conversation_id in store.backend.conversations(Deadline(_TIMEOUT)):
        stored = store.backend.load(conversation_id, Deadline(_TIMEOUT))
        if not isinstance(stored.data, bytes):
            continue
        form, key_id = store.form, store.form.key_id(stored.data)
        found = KeysFound("states", Counter([key_id]), [])
        try:
            if rekeys:
                rekeyed = partial(_rekeyed, form, conversation_id)
                store._updates.change(conversation_id, rekeyed, parse=False)
        except (DecryptionError, LockTimeoutError) as error:
            found.refused.append(str(error))
        yield found


def _rekeyed(form: StateForm, conversation_id: str, stored: Stored) -> Data:
    """Return a state encrypted with the first key; unchanged if it is, or if there is none."""
    data = stored.data
    if not isinstance(data, bytes) or form.keyring is None:
        return data
    is_first = form.key_id(data) == form.keyring.first_id
    return data if is_first else form.rekeyed(data, conversation_id, stored.user_id)
