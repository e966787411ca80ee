"""Several processes, loops and users share a store: each adapter keeps nothing in memory."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jazzmine import IntegrityError, ScopeError
from jazzmine.sync import MessageStore
from jazzmine.sync.long_term_memory import LongTermMemoryStore
from tests.adapters.frameworks import missing
from tests.adapters.played import PLAYED, played
from tests.adapters.played_program import PAIRS
from tests.adapters.processes import run_together
from tests.adapters.test_rule_store_calls import opened, stored
from tests.adapters.test_rule_traces import traces

PROGRAM = "tests.adapters.played_program"

EACH = pytest.mark.parametrize("name", PLAYED)


@pytest.fixture
def config(tmp_path: Path) -> dict[str, object]:
    return {"storage": "sqlite", "path": f"{tmp_path}/messages.db"}


@EACH
def test_a_run_that_was_killed_goes_on_in_another_process(
    name: str, config: dict[str, object], url: str
) -> None:
    if reason := missing(name):
        pytest.skip(reason)
    run_together(PROGRAM, config, (name, "run", "Rain?"))
    run_together(PROGRAM, config, (name, "killed", "And now?"))
    with opened(name, url) as agent:
        found = traces(agent)
    (printed,) = run_together(PROGRAM, config, (name, "run", "Still?"))

    assert found[0].total_tokens == 30
    # Some frameworks store nothing of a run before its end.
    assert [trace.total_tokens for trace in found[1:]] in ([], [15])
    history = json.loads(printed)
    assert [kind for kind, _ in history[:4]] == ["said", "call", "answer", "said"]
    assert history[-1] == ["said", "It rains."]


@pytest.mark.parametrize("name", [name for name in PLAYED if name != "langgraph"])
def test_of_two_processes_none_loses_what_another_stores(
    name: str, config: dict[str, object], url: str
) -> None:
    with opened(name, url) as agent:
        asyncio.run(agent.add(["begun"]))
        run_together(PROGRAM, config, *((name, "add", writer) for writer in "ab"))
        added = [str(text) for _, text in asyncio.run(agent.history())][1:]
    for writer in "ab":
        assert [text for text in added if text[0] == writer] == [
            f"{writer} {number} {half}" for number in range(PAIRS) for half in (0, 1)
        ]
    if name not in ("strands", "google_adk"):  # which store one message at a time
        assert [text[:-2] for text in added[::2]] == [text[:-2] for text in added[1::2]]


@EACH
def test_each_run_may_have_an_event_loop_of_its_own(name: str) -> None:
    with opened(name) as agent:
        asyncio.run(agent.run("Rain?"))
        asyncio.run(agent.run("And now?"))

        assert len(asyncio.run(agent.history())) == 8


@EACH
async def test_a_view_of_another_user_does_not_see_the_session(name: str) -> None:
    if reason := missing(name):
        pytest.skip(reason)
    with (
        MessageStore.initialize("memory:") as store,
        LongTermMemoryStore.initialize("memory:") as items,
    ):
        own, other = (
            played(name, store.scoped(user_id=user), items.scoped(user_id=user))
            for user in ("u1", "u2")
        )
        await own.run("Rain?")
        before = stored(own)
        seen: list[Any] = []
        refused = (IntegrityError, ScopeError)

        with suppress(*refused):
            seen = await other.history()
        with pytest.raises(refused):
            await other.run("And now?")

        assert seen == []
        assert stored(own) == before
        assert len(await own.history()) == 4
