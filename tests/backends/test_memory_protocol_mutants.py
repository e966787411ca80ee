"""The tests of lost replies and late requests detect a protocol that lacks a part."""

from __future__ import annotations

import pytest

from jazzmine.backends.redis import keys
from tests.backends import test_memory_lost_replies as lost_replies
from tests.behaviour.apis import SYNC
from tests.faults.networks import NETWORKS


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("string.sub(mark .. marks, 1, 256)", "mark"),
        ("string.sub(marks, 1, 16) ~= read", "false"),
    ],
    ids=["forgets the marks before", "does not compare the mark"],
)
async def test_a_script_without_marks_is_caught(
    monkeypatch: pytest.MonkeyPatch, right: str, wrong: str
) -> None:
    assert right in keys.WRITE.text
    monkeypatch.setattr(keys, "WRITE", keys.Script(keys.WRITE.text.replace(right, wrong)))
    with NETWORKS["redis"]() as network:
        async with await SYNC.WorkingMemoryStore.initialize(network.through) as store:
            await store.get_or_create(lost_replies.CID, "user", "agent")

            with pytest.raises(AssertionError):
                await lost_replies.test_a_write_is_not_repeated_over_a_newer_one(store, network)
