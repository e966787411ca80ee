"""Workers that start at once on a new store make its search index together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from jazzmine._sync.message_store.sqlite import SQLiteBackend
from jazzmine.sync.message_store import Conversation, MessageStore
from tests.servers import postgres

WORKERS = 8


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_each_of_several_workers_opens_a_new_store_with_search(name: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        config: dict[str, object] = {"storage": "sqlite", "path": str(tmp_path / "messages.db")}
        if name == "postgres":
            schema = stack.enter_context(postgres.empty_schema())
            config = {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema}

        def start(number: int) -> None:
            with MessageStore.initialize({**config, "search": "english"}) as store:
                store.store_conversation(Conversation(id=f"c{number}", user_id="u", agent_id="a"))

        with ThreadPoolExecutor(WORKERS) as threads:
            list(threads.map(start, range(WORKERS)))

        with MessageStore.initialize(config) as store:
            assert len(store.get_conversations()) == WORKERS
            assert store.search_messages("nothing") == []


def test_an_index_that_another_process_makes_while_a_store_is_opened_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"storage": "sqlite", "path": str(tmp_path / "messages.db"), "search": True}
    list_conversations = SQLiteBackend.list_conversations

    def list_late(self: SQLiteBackend, page: Any) -> Any:
        monkeypatch.undo()
        with MessageStore.initialize(config) as other:
            other.store_conversation(Conversation(user_id="u", agent_id="a"))
        return list_conversations(self, page)

    monkeypatch.setattr(SQLiteBackend, "list_conversations", list_late)
    with MessageStore.initialize(config) as store:
        assert len(store.get_conversations()) == 1
