"""Sessions on views of one user: another user's session is as if it were not stored."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine import IntegrityError
from jazzmine.adapters.openai_agents import JazzmineSession
from jazzmine.core import MessageStore

SAID: list[Any] = [{"role": "user", "content": "Rain?"}]


def session(store: MessageStore, user: str) -> JazzmineSession:
    return JazzmineSession(store.scoped(user_id=user), "s1", user_id=user, agent_id="guide")


async def test_a_session_of_another_user_is_not_there(store: MessageStore) -> None:
    own, of_another = session(store, "ada"), session(store, "eve")
    await own.add_items(SAID)

    assert await of_another.get_items() == []
    assert await of_another.pop_item() is None
    await of_another.clear_session()
    with pytest.raises(IntegrityError, match="its id is taken"):
        await of_another.add_items(SAID)

    assert await own.get_items() == SAID
