"""The part of a conversation that a page shows, with the traces of its messages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from jazzmine.core import Message, MessageRole, MessageStore, TurnTrace
from jazzmine.inspector.markdown import markdown
from jazzmine.inspector.text import clipped, day_of

PAGE = 200

# Of a page so many characters are shown as Markdown, the newest answers first; it takes long.
_MOST_MARKDOWN = 200_000

# The question of an answer is among so many messages before it: calls of tools come between.
_BEFORE_AN_ANSWER = 50


@dataclass(frozen=True)
class Window:
    """Messages of a conversation that follow one another, oldest first.

    Attributes:
        has_earlier: whether there are messages before the first one.
        has_later: whether there are messages after the last one.
    """

    messages: list[Message]
    has_earlier: bool
    has_later: bool

    @property
    def first(self) -> str | None:
        """The id of the first one."""
        return self.messages[0].id if self.messages else None

    @property
    def last(self) -> str | None:
        """The id of the last one."""
        return self.messages[-1].id if self.messages else None

    @property
    def is_whole(self) -> bool:
        """Whether the conversation has no other messages."""
        return not (self.has_earlier or self.has_later)


@dataclass(frozen=True)
class Entry:
    """A message of a thread.

    Attributes:
        trace: the trace of the turn that it answers, if one is stored.
        day: the day, if the message before it is of another day.
        html: its text as HTML, if it has Markdown.
    """

    message: Message
    trace: TurnTrace | None
    day: str = ""
    html: Markup | None = None


async def read_window(
    store: MessageStore, conversation_id: str, place: Mapping[str, str]
) -> Window:
    """Return some messages of a conversation, flagged or not; by default the newest ones.

    Args:
        store: an open store.
        conversation_id: the conversation.
        place: where: `at` the id of a message in the middle, `before` the id of the one after the
            last, `after` the id of the one before the first, or `oldest`.

    Raises:
        NotFoundError: the conversation has no message with the id.
    """
    at, before, after = (place.get(name) or None for name in ("at", "before", "after"))
    if at is not None:
        earlier, has_earlier = await _earlier(store, conversation_id, at, PAGE // 2)
        later = await later_window(store, conversation_id, at, PAGE // 2)
        message = await store.get_message_by_id(at)
        messages = [*earlier, *([message] if message else ()), *later.messages]
        return Window(messages, has_earlier, later.has_later)
    if after is not None or "oldest" in place:
        return await later_window(store, conversation_id, after, PAGE)
    messages, has_earlier = await _earlier(store, conversation_id, before, PAGE)
    return Window(messages, has_earlier, before is not None)


async def later_window(
    store: MessageStore, conversation_id: str, after: str | None, size: int
) -> Window:
    """Return the messages after one; None begins at the oldest.

    Raises:
        NotFoundError: the conversation has no message with the id.
    """
    messages = await store.get_messages_by_conversation_id(
        conversation_id, limit=size + 1, after=after
    )
    return Window(messages[:size], after is not None, len(messages) > size)


async def _earlier(
    store: MessageStore, conversation_id: str, before: str | None, size: int
) -> tuple[list[Message], bool]:
    """Return the messages before one, oldest first, and whether there are more."""
    messages = await store.get_messages_by_conversation_id(
        conversation_id, order="newest", limit=size + 1, after=before
    )
    return messages[:size][::-1], len(messages) > size


async def question_of(store: MessageStore, answer: Message) -> Message | None:
    """Return the nearest message of a user before an answer."""
    before = await store.get_messages_by_conversation_id(
        answer.conversation_id, order="newest", limit=_BEFORE_AN_ANSWER, after=answer.id
    )
    return next((each for each in before if each.role is MessageRole.USER), None)


async def entries(store: MessageStore, window: Window, day_before: str = "") -> list[Entry]:
    """Return the messages of a window with their traces.

    Args:
        store: an open store.
        window: the messages.
        day_before: the day of the message before them, if that is shown.
    """
    traces = {trace.message_id: trace for trace in await _traces(store, window)}
    # Other pages would wait meanwhile.
    html = await asyncio.to_thread(_rendered, window.messages)
    shown = []
    for message in window.messages:
        day = day_of(message.timestamp)
        new_day = "" if day == day_before else day
        shown.append(Entry(message, traces.get(message.id), new_day, html.get(message.id)))
        day_before = day
    return shown


def _rendered(messages: list[Message]) -> dict[str, Markup]:
    """Return the HTML of the newest answers, by the ids of those that have Markdown."""
    rendered: dict[str, Markup] = {}
    left = _MOST_MARKDOWN
    for message in reversed(messages):
        if message.role not in (MessageRole.USER, MessageRole.TOOL):
            text = clipped(message.original_content)
            left -= len(text)
            html = markdown(text) if left >= 0 else None
            if html is not None:
                rendered[message.id] = html
    return rendered


async def _traces(store: MessageStore, window: Window) -> Iterable[TurnTrace]:
    messages = window.messages
    if messages and window.is_whole:
        return await store.get_turn_traces_by_conversation_id(messages[0].conversation_id)
    traces = await asyncio.gather(
        *(store.get_turn_trace_by_message_id(message.id) for message in messages)
    )
    return filter(None, traces)
