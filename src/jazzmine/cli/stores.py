"""The stores that a command works on: how they are named, and how they are opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import typer

from jazzmine._sync.factory import new_long_term_memory, new_message_store, new_working_memory
from jazzmine.cli.output import Refused
from jazzmine.config import (
    BackendConfig,
    long_term_memory_config,
    message_store_config,
    working_memory_config,
)
from jazzmine.config.base import trimmed
from jazzmine.errors import ConfigurationError, StoreUnavailableError
from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore
from jazzmine.sync.maintenance import pending_changes

AnyStore = TypeVar("AnyStore", bound=MessageStore | WorkingMemoryStore | LongTermMemoryStore)


@dataclass(frozen=True)
class Kind(Generic[AnyStore]):
    """A kind of store, and how a user names one."""

    name: str
    option: str
    variable: str
    read: Callable[[Any], BackendConfig]
    make: Callable[[BackendConfig], AnyStore]

    def is_named(self, url: str | None) -> bool:
        """Return whether a URL or the environment names such a store."""
        return bool(url or trimmed(os.environ.get(self.variable, "")))


MESSAGES = Kind[MessageStore](
    "message store", "--store", "JAZZMINE_MESSAGE_STORE", message_store_config, new_message_store
)
MEMORY = Kind[WorkingMemoryStore](
    "working memory",
    "--memory",
    "JAZZMINE_WORKING_MEMORY",
    working_memory_config,
    new_working_memory,
)
ITEMS = Kind[LongTermMemoryStore](
    "long-term memory",
    "--items",
    "JAZZMINE_LONG_TERM_MEMORY",
    long_term_memory_config,
    new_long_term_memory,
)


class Named(Generic[AnyStore]):
    """A store that the user has named, or the default one; it is not open."""

    def __init__(self, kind: Kind[AnyStore], url: str | None, argument: str | None = None) -> None:
        self.kind: Kind[AnyStore] = kind
        self._argument = argument
        try:
            self.config: BackendConfig = kind.read(url)
        except ConfigurationError as error:
            # The text names the environment variable, if the URL is from there.
            hint = argument or kind.option if url else None
            raise typer.BadParameter(str(error), param_hint=hint) from None

    def new(self) -> AnyStore:
        """Return the store, which is not open."""
        return self.kind.make(self.config)

    def pending(self) -> list[str]:
        """Return what opening the store would create or change."""
        return pending_changes(self.new())

    def require_current(self) -> None:
        """Raise `Refused` if there is no such store, or if it has to be brought up to date."""
        if not (pending := self.pending()):
            return
        name = self._argument or f"this {self.kind.name}"
        path = getattr(self.config, "path", None)
        if path is not None and not os.path.exists(path):
            raise Refused(
                f"{name} is not there: no file {path}. Correct the path, or create a store there"
                " with `jazzmine migrate`"
            )
        raise Refused(
            f"{name} has no tables yet, or old ones. Correct the address, or let `jazzmine"
            " migrate`:\n  " + "\n  ".join(pending)
        )

    @contextmanager
    def open(self, *, create: bool = False) -> Iterator[AnyStore]:
        """Open the store for a block; only with `create` it may be made, or brought up to date."""
        if self.config.storage == "memory":
            raise Refused("memory: belongs to one process: what is stored there is lost at its end")
        if not create:
            self.require_current()
        store = self.new()
        with store.open():
            yield store


class Stores:
    """The stores that options or the environment name."""

    def __init__(self, store: str | None, memory: str | None, items: str | None) -> None:
        self._urls = (store, memory, items)

    @property
    def messages(self) -> Named[MessageStore]:
        """The message store."""
        return Named(MESSAGES, self._urls[0])

    @property
    def memory(self) -> Named[WorkingMemoryStore] | None:
        """The working memory, if one is named that processes share."""
        return _shared(MEMORY, self._urls[1])

    @property
    def items(self) -> Named[LongTermMemoryStore] | None:
        """The long-term memory, if one is named that processes share."""
        return _shared(ITEMS, self._urls[2])

    @property
    def named(self) -> list[Named[Any]]:
        """The stores that are named; the default message store if there are none."""
        others = [each for each in (self.memory, self.items) if each is not None]
        with_messages = not others or MESSAGES.is_named(self._urls[0])
        return [self.messages, *others] if with_messages else others


def _shared(kind: Kind[AnyStore], url: str | None) -> Named[AnyStore] | None:
    if not kind.is_named(url):
        return None
    named = Named(kind, url)
    return None if named.config.storage == "memory" else named


def require(named: Named[AnyStore] | None, kind: Kind[AnyStore]) -> Named[AnyStore]:
    """Return the store that a command needs, or raise that none is named."""
    if named is None:
        raise typer.BadParameter(
            f"name a {kind.name} that is shared; `memory:` belongs to one process",
            param_hint=f"{kind.option} or {kind.variable}",
        )
    return named


def unavailable(error: BaseException) -> bool:
    """Whether an error says that the store could not be reached, or that its time was over."""
    return isinstance(error, (StoreUnavailableError, TimeoutError))
