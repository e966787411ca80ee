"""Checkpoints and items on views of one user: another user's are as if they were not stored."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from jazzmine import IntegrityError
from jazzmine.adapters.langgraph import JazzmineSaver, JazzmineStore
from jazzmine.sync import LongTermMemoryStore
from tests.behaviour.backends import Config


def test_threads_and_items_of_another_user_are_not_there(item_config: Config) -> None:
    thread: Any = {"configurable": {"thread_id": "t1", "checkpoint_ns": ""}}
    checkpoint: Any = {
        **empty_checkpoint(),
        "channel_versions": {"c": 1},
        "channel_values": {"c": ["a value"]},
    }
    with LongTermMemoryStore.initialize(item_config) as items:
        own, of_another = items.scoped(user_id="ada"), items.scoped(user_id="eve")
        JazzmineSaver(own).put(thread, checkpoint, {"source": "input"}, {"c": 1})
        JazzmineStore(own).put(("facts",), "k", {"a": 1})

        stranger, store = JazzmineSaver(of_another), JazzmineStore(of_another)
        assert stranger.get_tuple(thread) is None
        assert list(stranger.list(None)) == []
        assert store.get(("facts",), "k") is None
        assert store.list_namespaces() == []
        stranger.delete_thread("t1")
        store.delete(("facts",), "k")
        with pytest.raises(IntegrityError, match="its id is taken"):
            stranger.put(thread, checkpoint, {"source": "input"}, {"c": 1})

        found = JazzmineSaver(own).get_tuple(thread)
        assert found is not None
        assert found.checkpoint["channel_values"] == {"c": ["a value"]}
        assert JazzmineStore(own).get(("facts",), "k") is not None
