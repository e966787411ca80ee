"""Many records, or large ones, do not keep the event loop busy."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from jazzmine._async.message_store import mongodb_backend, postgres
from jazzmine.core.message_store import MessageStore
from tests.behaviour.samples import conversation, message
from tests.faults.networks import config_of

# The functions that build, by back end, and the calls that use them.
BUILDERS = {
    "postgres": (postgres, ["store_parameters", "append_parameters"]),
    "mongodb": (mongodb_backend, ["message_documents"]),
}


@pytest.fixture(params=BUILDERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def threads(name: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads in which something was built."""
    found: list[int] = []
    module, names = BUILDERS[name]
    for builder in names:
        build = getattr(module, builder)

        def noted(*arguments: Any, build: Any = build) -> Any:
            found.append(threading.get_ident())
            return build(*arguments)

        monkeypatch.setattr(module, builder, noted)
    return found


@pytest.mark.parametrize(
    ("count", "size", "search", "is_large"),
    [
        (1, 10**6, False, True),
        (200, 10, False, True),
        (1, 20_000, False, False),
        (1, 20_000, True, True),
    ],
)
async def test_large_calls_are_built_in_a_thread(
    name: str,
    threads: list[int],
    tmp_path: Path,
    count: int,
    size: int,
    search: bool,
    is_large: bool,
) -> None:
    stored, appended = (
        [message(f"{kind}{number}", original_content="x" * size) for number in range(count)]
        for kind in ("s", "a")
    )
    with config_of(name, tmp_path) as config:
        async with await MessageStore.initialize({**config, "search": search}) as store:
            await store.store_conversation(conversation())
            threads.clear()
            await store.store_messages(stored)
            await store.append_messages("c1", appended)

            assert len(await store.get_messages_by_conversation_id("c1")) == 2 * count
    assert threads
    in_loop = [thread == threading.get_ident() for thread in threads]
    assert in_loop == [not is_large] * len(threads)
