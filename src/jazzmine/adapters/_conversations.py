"""Conversations of adapters: their messages, appended with the traces of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from weakref import finalize

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.adapters._calls import as_async, require_session_id, retry_conflicts
from jazzmine.adapters._recorder import RunRecorder, redacted, shortened
from jazzmine.errors import ConflictError, IntegrityError
from jazzmine.records.log import ANY, AnyMessage
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter

# How many messages are read at once.
_PAGE = 500


class Conversations:
    """The conversations of an adapter, which are stored with their first messages.

    Raises:
        ValueError: an id is missing.
        TypeError: an argument is of another type.
    """

    def __init__(
        self, store: AsyncMessageStore | MessageStore, user_id: str, agent_id: str
    ) -> None:
        self.given: AsyncMessageStore | MessageStore = store
        self.store: AsyncMessageStore = as_async(store)
        self.user_id: str = require_session_id(user_id, "user_id")
        self.agent_id: str = require_session_id(agent_id, "agent_id")

    async def append(
        self,
        conversation_id: str,
        messages: Sequence[Message],
        expected_last: str | AnyMessage | None = ANY,
        runs: Sequence[tuple[RunRecorder, Sequence[Message]]] = (),
    ) -> None:
        """Append messages as `append_with_traces` does; store the conversation if it is new."""
        append = partial(
            append_with_traces, self.store, conversation_id, messages, runs, expected_last
        )
        try:
            await append()
        except IntegrityError:
            # It is as old as its first message, so it is never newer than its messages.
            conversation = Conversation(
                id=conversation_id,
                user_id=self.user_id,
                agent_id=self.agent_id,
                created_at=min((message.timestamp for message in messages), default=0),
            )
            await self.store.get_or_create_conversation(conversation)
            await append()

    def recorder(self, conversation_id: str) -> RunRecorder:
        """Return the recorder of a run whose messages go to a conversation."""
        return RunRecorder(self.store, conversation_id, self.user_id, self.agent_id)


async def append_with_traces(
    store: AsyncMessageStore,
    conversation_id: str,
    messages: Sequence[Message],
    runs: Sequence[tuple[RunRecorder, Sequence[Message]]] = (),
    expected_last: str | AnyMessage | None = ANY,
) -> Sequence[Message]:
    """Append messages as `append_messages` does, with the traces of their runs.

    The step that stores a trace gives it its number: no other trace is stored between the reading
    of the newest number and the append.

    Raises:
        ConflictError: another message is the newest.
    """
    last = runs[0][0].last_id if runs and expected_last is ANY else expected_last

    async def attempt() -> tuple[Sequence[Message], list[TurnTrace | None]]:
        nonlocal last
        traces: list[TurnTrace | None] = []
        unsaved: list[TurnTrace] = []
        for run, said in runs:
            trace = await run.trace_with(said, earlier=unsaved[-1] if unsaved else None)
            traces.append(trace)
            unsaved += [] if trace is None else [trace]
        try:
            stored = await store.append_messages(
                conversation_id,
                messages,
                expected_last=last if unsaved else expected_last,
                trace=unsaved[-1] if unsaved else None,
            )
        except ConflictError as error:
            last = error.newest_id
            raise
        for trace in unsaved[:-1]:
            # An append that was repeated has changed nothing, and no number may.
            if await store.get_turn_trace_by_message_id(trace.message_id) is None:
                await store.store_turn_trace(trace)
        return stored, traces

    stored, traces = await (retry_conflicts(attempt, store) if expected_last is ANY else attempt())
    for (run, said), trace in zip(runs, traces, strict=True):
        await run.appended(said, trace)
    return stored


# Runs whose end is being stored; the loop alone would not keep these tasks.
_ENDING: set[asyncio.Task[None]] = set()


def finish_when_dropped(run: RunRecorder, owner: object) -> None:
    """Store what a run has recorded once its framework has dropped the run.

    If a reader leaves a stream, or a run is cancelled, some frameworks tell nobody.
    """
    loop = asyncio.get_running_loop()

    def finish() -> None:
        task = loop.create_task(run.finish())
        _ENDING.add(task)
        task.add_done_callback(_ENDING.discard)

    def end() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish)

    finalize(owner, end).atexit = False


async def newest_shown(store: AsyncMessageStore, conversation_id: str, count: int) -> list[Message]:
    """Return the newest messages that are not flagged, oldest first."""
    found: list[Message] = []
    after: str | None = None
    size = min(max(count, 1), _PAGE)
    while len(found) < count:
        page = await store.get_messages_by_conversation_id(
            conversation_id, order="newest", limit=size, after=after
        )
        found += [message for message in page if not message.is_flagged]
        if len(page) < size:
            break
        after = page[-1].id
    return found[: max(count, 0)][::-1]


async def retitle(store: AsyncMessageStore, old: Message, new: Message) -> None:
    """Give a conversation whose title is of a message that has changed a new one."""
    conversation = await store.get_conversation_by_id(old.conversation_id)
    if conversation is not None and conversation.title == shortened(old.original_content):
        title = shortened(new.original_content)
        await store.edit_conversation(old.conversation_id, title=title)


async def redact(store: AsyncMessageStore, old: Message, new: Message) -> None:
    """Take what a message has said before out of its conversation's title and its run's trace."""
    await retitle(store, old, new)
    where = TraceFilter(conversation_id=old.conversation_id, started_until=old.timestamp + 1)
    for trace in await store.find_turn_traces(where, limit=1):
        await store.store_turn_trace(redacted(trace))
