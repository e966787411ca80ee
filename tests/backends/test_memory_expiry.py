"""What expires between two steps of a call is nothing for the second one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jazzmine.errors import LockLostError, NotFoundError
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.backends.memory_tables import Locks, open_sync, opened_backend

Expire = Callable[[], None]


@pytest.fixture(params=["postgres", "sqlite", "redis"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, Locks]]:
    with opened_backend(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def store(backend: tuple[Any, Locks]) -> Iterator[WorkingMemoryStore]:
    with open_sync(backend[0]) as opened:
        opened.get_or_create("c", "ann", "agent")
        yield opened


@pytest.fixture
def expire(backend: tuple[Any, Locks]) -> Expire:
    return backend[1].expire


def before(store: WorkingMemoryStore, method: str, step: Callable[[], object]) -> None:
    """Do something before each request of a kind."""
    send = getattr(store.backend, method)

    def send_later(*arguments: Any, **named: Any) -> Any:
        step()
        return send(*arguments, **named)

    setattr(store.backend, method, send_later)


def test_between_the_read_and_the_write_of_an_update(
    store: WorkingMemoryStore, expire: Expire
) -> None:
    before(store, "write", expire)

    with pytest.raises(NotFoundError):
        store.end_turn("c", "Hello", "greet")

    assert store.get("c") is None


def test_in_a_block(store: WorkingMemoryStore, expire: Expire, backend: tuple[Any, Locks]) -> None:
    with pytest.raises(LockLostError, match="deleted meanwhile, or has expired"):
        end_late(store, expire)

    assert store.get("c") is None
    assert backend[1].holder() is None
    assert store.get_or_create("c", "bob", "agent").user_id == "bob"


def end_late(store: WorkingMemoryStore, expire: Expire) -> None:
    with store.locked("c") as memory:
        expire()
        memory.end_turn("Hello", "greet")
