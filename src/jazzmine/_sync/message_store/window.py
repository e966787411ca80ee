"""Read the messages of a context window, newest first, in pages."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile

from jazzmine._compat.concurrency import SyncWork as Work
from jazzmine.errors import NotFoundError
from jazzmine.records.context_window import ContextWindow, split_at_answer
from jazzmine.records.messages import Message

__all__ = ["read_window"]


def read_window(
    read_page: Work[list[Message]],
    new_window: Callable[[], ContextWindow],
    is_within: Callable[[Message], bool] | None,
) -> list[Message]:
    """Return the messages of a window that is full, or has all messages of its conversation.

    `read_page` takes whether the flagged messages of assistants and colleagues are wanted, the size
    of a page, and the id of the last message of the page before. `is_within` returns whether a
    message is one of the newest ones that the window may have; None if it may have all.
    """
    while True:
        window = new_window()
        try:
            _fill(window, read_page, is_within)
        except NotFoundError:
            # The last message of a page was deleted meanwhile: it has to be read anew.
            continue
        return window.messages()


def _fill(
    window: ContextWindow,
    read_page: Work[list[Message]],
    is_within: Callable[[Message], bool] | None,
) -> None:
    after: str | None = None
    calls = False
    while not window.is_full:
        size = window.page_size
        page = read_page(calls, size, after)
        if is_within is not None:
            page = list(takewhile(is_within, page))
        is_last = len(page) < size
        # The call of a tool's answer without its id may be one of the flagged messages, so they are
        # read from there on.
        page, rest = (page, []) if calls else split_at_answer(page)
        window.add(page)
        if is_last and not rest:
            return
        # Where nearly all messages are flagged calls, reading them all would take long.
        are_few = calls and sum(message.is_flagged for message in page) * 2 <= size
        calls = bool(rest) or window.is_waiting or are_few
        after = page[-1].id if page else after
