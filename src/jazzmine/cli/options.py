"""The options that several commands have, and how a command opens its stores."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer

from jazzmine._sync.factory import (
    new_long_term_memory,
    new_message_store,
    new_working_memory,
)
from jazzmine.cli.output import Refused, say
from jazzmine.config import (
    BackendConfig,
    long_term_memory_config,
    message_store_config,
    working_memory_config,
)
from jazzmine.errors import ConfigurationError, InvalidAddressError, StoreUnavailableError
from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore
from jazzmine.sync.maintenance import pending_changes

__all__ = [
    "POLL",
    "AfterOption",
    "ConversationArgument",
    "FollowOption",
    "FullOption",
    "ItemsOption",
    "JSONOption",
    "LimitOption",
    "MemoryOption",
    "StoreOption",
    "Stores",
    "WideOption",
    "YesOption",
    "confirm",
    "in_ms",
    "is_named",
    "item_store",
    "items_config",
    "items_url",
    "memory_store",
    "message_store",
    "open_store",
    "store_config",
]

MESSAGE_STORE = "JAZZMINE_MESSAGE_STORE"
WORKING_MEMORY = "JAZZMINE_WORKING_MEMORY"
LONG_TERM_MEMORY = "JAZZMINE_LONG_TERM_MEMORY"

_MEMORY_HINT = f"--memory or {WORKING_MEMORY}"

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help=f"The message store. Better in {MESSAGE_STORE}, where no password shows.",
        show_default=False,
    ),
]
MemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="URL",
        help=f"The working memory. Better in {WORKING_MEMORY}.",
        show_default=False,
    ),
]
ItemsOption = Annotated[
    str | None,
    typer.Option(
        "--items",
        metavar="URL",
        help=f"The long-term memory. Better in {LONG_TERM_MEMORY}.",
        show_default=False,
    ),
]
JSONOption = Annotated[
    bool, typer.Option("--json", help="Print JSON, one object on a line, for other programs.")
]
WideOption = Annotated[
    bool, typer.Option("--wide", help="Cut nothing where the terminal is too narrow.")
]
FullOption = Annotated[bool, typer.Option("--full", help="Cut no long text.")]
FollowOption = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with what is added, until Ctrl-C.")
]
AfterOption = Annotated[
    str | None,
    typer.Option("--after", metavar="ID", help="Begin after this one: the next page."),
]
LimitOption = Annotated[
    int, typer.Option("--limit", "-n", min=1, metavar="N", help="How many at the most.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
ConversationArgument = Annotated[
    str, typer.Argument(metavar="CONVERSATION", help="The id of a conversation.")
]


# What is followed is looked for so often, in s.
POLL = 1.0
# By the letter of an age.
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@dataclass
class Stores:
    """The URLs that stand before the command's name."""

    store: str | None = None
    memory: str | None = None
    items: str | None = None


def _given(context: typer.Context, own: str | None, name: str) -> str | None:
    before: str | None = getattr(context.obj or Stores(), name)
    return own or before


@contextmanager
def message_store(
    context: typer.Context, url: str | None, *, create: bool = False
) -> Iterator[MessageStore]:
    """Open the message store of a command for a block.

    Args:
        url: the option `--store` after the command's name.
        create: whether it may be created where there is none.

    Raises:
        Refused: there is none, or it has to be brought up to date first.
    """
    with open_store(_given(context, url, "store"), create=create) as store:
        yield store


@contextmanager
def open_store(
    url: str | None, *, create: bool = False, name: str = "this store"
) -> Iterator[MessageStore]:
    """Open the message store of a URL, or of the environment, for a block.

    Args:
        url: its URL, or None.
        create: whether it may be created where there is none.
        name: what a refusal calls it.
    """
    config = store_config(url)
    if not create:
        require_messages(config, name)
    store: MessageStore = new_message_store(config)
    with refusals(), store.open():
        yield store


def store_config(url: str | None, hint: str = "--store") -> BackendConfig:
    """Return the configuration of a message store.

    Raises:
        BadParameter: it cannot be read: a wrong usage.
    """
    try:
        return message_store_config(url)
    except ConfigurationError as error:
        # The text names the environment variable, if the URL is from there.
        raise typer.BadParameter(str(error), param_hint=hint if url else None) from None


def require_messages(config: BackendConfig, name: str = "this store") -> None:
    """Raise unless there is a message store that needs no changes, which this does not make."""
    named = MESSAGE_STORE in os.environ or config != message_store_config({})
    which = name if named else "the default store (name another in --store)"
    _require_current(new_message_store(config), config, which)


def require_memory(config: BackendConfig) -> None:
    """Do the same for a working memory."""
    _require_current(new_working_memory(config), config, "this working memory")


def pending_of(store: MessageStore | WorkingMemoryStore | LongTermMemoryStore) -> list[str]:
    """Return what opening a store would create or change."""
    with refusals():
        return pending_changes(store)


def _require_current(
    store: MessageStore | WorkingMemoryStore | LongTermMemoryStore,
    config: BackendConfig,
    which: str,
) -> None:
    pending = pending_of(store)
    if not pending:
        return
    path = getattr(config, "path", None)
    if path is not None and not os.path.exists(path):
        raise Refused(
            f"{which} is not there: no file {path}. Correct the path, or create a store there with"
            " `jazzmine migrate`"
        )
    raise Refused(
        f"{which} has no tables yet, or old ones. Correct the address, or let `jazzmine migrate`:\n"
        "  " + "\n  ".join(pending)
    )


@contextmanager
def refusals() -> Iterator[None]:
    """Distinguish what a server refused from a wrong usage of this program."""
    try:
        yield
    except InvalidAddressError:
        raise
    except ConfigurationError as error:
        raise Refused(str(error)) from error


def given_url(context: typer.Context, url: str | None) -> str | None:
    """Return the URL of the message store, or None for that of the environment or the default."""
    return _given(context, url, "store")


def is_named(url: str | None, other: str | None) -> bool:
    """Return whether a command regards the message store.

    The default one is meant only where no store is named at all.

    Args:
        url: that of the message store, if it is named.
        other: that of another kind of store.
    """
    return url is not None or other is None or MESSAGE_STORE in os.environ


def memory_url(context: typer.Context, url: str | None) -> str | None:
    """Return the URL of the working memory, or None if none that others share is named."""
    given = _given(context, url, "memory") or os.environ.get(WORKING_MEMORY)
    return None if not given or given.startswith("memory:") else given


@contextmanager
def memory_store(context: typer.Context, url: str | None) -> Iterator[WorkingMemoryStore]:
    """Open the working memory of a command for a block.

    Raises:
        Refused: there is none, or it has to be brought up to date first.
    """
    given = memory_url(context, url)
    if given is None:
        raise typer.BadParameter(
            "name a working memory that is shared; `memory:` belongs to one process",
            param_hint=_MEMORY_HINT,
        )
    config = memory_config(given)
    require_memory(config)
    with open_memory(config) as store:
        yield store


@contextmanager
def open_memory(config: BackendConfig) -> Iterator[WorkingMemoryStore]:
    """Open a working memory for a block; it is created where there is none."""
    store: WorkingMemoryStore = new_working_memory(config)
    with refusals(), store.open():
        yield store


def memory_config(url: str) -> BackendConfig:
    """Return the configuration of a working memory.

    Raises:
        BadParameter: it cannot be read: a wrong usage.
    """
    try:
        return working_memory_config(url)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error), param_hint=_MEMORY_HINT) from None


def items_url(context: typer.Context, url: str | None) -> str | None:
    """Return the URL of the long-term memory, or None if none that others share is named."""
    given = _given(context, url, "items") or os.environ.get(LONG_TERM_MEMORY)
    return None if not given or given.startswith("memory:") else given


def items_config(url: str, hint: str = f"--items or {LONG_TERM_MEMORY}") -> BackendConfig:
    """Return the configuration of a long-term memory.

    Raises:
        BadParameter: it cannot be read: a wrong usage.
    """
    try:
        return long_term_memory_config(url)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from None


@contextmanager
def item_store(
    url: str, *, create: bool = False, name: str = "this long-term memory"
) -> Iterator[LongTermMemoryStore]:
    """Open a long-term memory for a block.

    Args:
        url: its URL.
        create: whether it may be created where there is none.
        name: what a refusal calls it.

    Raises:
        Refused: there is none, or it has to be brought up to date first.
    """
    config = items_config(url)
    if not create:
        _require_current(new_long_term_memory(config), config, name)
    with refusals():
        store: LongTermMemoryStore = new_long_term_memory(config)
        with store.open():
            yield store


def in_ms(text: str) -> int:
    """Return a time in ms: an integer is one, else it is an age, or an ISO date or time.

    A date without a zone is in UTC. An age is a number of seconds, minutes, hours, days or weeks.

    Raises:
        BadParameter: it is none.
    """
    try:
        return int(text)
    except ValueError:
        pass
    if age := re.fullmatch(r"(\d{1,6})([smhdw])", text):
        return round((time.time() - int(age[1]) * _SECONDS[age[2]]) * 1000)
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise typer.BadParameter(
            "it is a date (2026-01-31), a time (2026-01-31T08:00Z), an age (30m, 12h, 7d, 2w), or a"
            " number of ms since 1970"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def confirm(question: str, yes: bool) -> None:
    """Ask before something is deleted, unless `--yes` was given.

    Raises:
        Refused: the answer is no, or nobody can be asked.
    """
    if yes:
        return
    try:
        if typer.confirm(question, err=True):
            return
    except typer.Abort:
        say("")  # the end of the line with the question
    raise Refused("nothing was deleted (--yes does it without asking)")


def unavailable(error: BaseException) -> bool:
    """Whether an error says that the store could not be reached, or that its time was over."""
    return isinstance(error, (StoreUnavailableError, TimeoutError)) or (
        isinstance(error, OSError) and not isinstance(error, FileNotFoundError)
    )
