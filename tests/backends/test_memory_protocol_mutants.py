"""The tests of lost replies and given-up calls detect a protocol that lacks a part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jazzmine.backends.redis import keys
from jazzmine.deadline import Deadline
from tests.backends import test_memory_given_up as given_up
from tests.backends import test_memory_lost_replies as lost_replies
from tests.backends.memory_tables import open_sync, opened_backend
from tests.backends.redis_apis import open_sync as open_redis
from tests.backends.redis_topologies import topology

CHECK = "if last_number() >= number then"


def test_a_script_that_does_not_look_at_the_number_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert CHECK in keys.WRITE.text
    text = keys.WRITE.text.replace(CHECK, "if false then")
    monkeypatch.setattr(keys, "WRITE", keys.Script(text))
    with topology("standalone", open_redis) as servers:
        store = servers.open(timeout=4)
        store.get_or_create(lost_replies.CID, "user", "agent")

        with pytest.raises(AssertionError):
            lost_replies.test_a_write_is_not_repeated_over_a_newer_one(store, servers)


@pytest.mark.parametrize("name", ["postgres", "redis"])
def test_a_back_end_that_takes_nothing_back_is_caught(name: str, tmp_path: Path) -> None:
    with (
        opened_backend(name, tmp_path) as (config, locks),
        open_sync(config) as store,
        open_sync(config) as other,
    ):
        load = store.backend.load

        def read(cid: str, deadline: Deadline, *, renew: bool = False, **_: Any) -> Any:
            return load(cid, deadline, renew=renew)

        store.backend.load = read

        with pytest.raises(AssertionError):
            given_up.test_what_was_given_up_changes_nothing_after_a_later_call(
                (store, other, locks), "end_turn", "c", "get"
            )
