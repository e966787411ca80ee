"""Histories of Microsoft Agent Framework (`agent-framework-core`) in a message store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import quote

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.adapters._calls import finished, require_session_id, retry_conflicts
from jazzmine.adapters._conversations import Conversations, finish_when_dropped
from jazzmine.adapters._items import Described, described, item_message, item_of, role_of, text_of
from jazzmine.adapters._pairs import Part, whole
from jazzmine.adapters._recorder import RunRecorder, parsed_json, unrecorded
from jazzmine.adapters._versions import supported
from jazzmine.records import messages as records
from jazzmine.records.messages import MessageRole

with supported("agent-framework-core", "1.21.0", "2.0"):
    from agent_framework import (
        DEFAULT_TOOL_APPROVAL_SOURCE_ID,
        AgentMiddleware,
        ChatMiddleware,
        FunctionMiddleware,
        HistoryProvider,
        InMemoryHistoryProvider,
        Message,
        MiddlewareTermination,
    )

__all__ = ["JazzmineHistoryProvider"]

CallNext: TypeAlias = Callable[[], Awaitable[None]]

_KEY = "agent_framework"

# The run that the code of a task belongs to.
_RUN: ContextVar[RunRecorder | None] = ContextVar("jazzmine_run", default=None)

# What a content is to its neighbours, by its type.
_KINDS = {"function_call": "call", "function_result": "answer", "text_reasoning": "reasoning"}


class JazzmineHistoryProvider(HistoryProvider):
    """The histories of sessions; each is the conversation `SESSION/SOURCE`.

    Implements `agent_framework.HistoryProvider`. It keeps nothing in memory or in `session.state`,
    so any number of processes may use one session at once.

    Args:
        store: an open message store; with a sync one, calls run in worker threads.
        user_id: the user of new conversations and messages.
        agent_id: the agent of new conversations.
        source_id: the name of this provider; providers of different names have histories of
            their own.
        skip_excluded: whether messages that a compaction has excluded are left out.
        options: the other arguments of the framework's `HistoryProvider`, such as `load_messages`
            and `store_inputs`.

    Raises:
        ValueError: an id is missing.
        TypeError: an argument is of another type.
    """

    DEFAULT_SOURCE_ID = "jazzmine"

    def __init__(
        self,
        store: AsyncMessageStore | MessageStore,
        *,
        user_id: str,
        agent_id: str,
        source_id: str = DEFAULT_SOURCE_ID,
        skip_excluded: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(require_session_id(source_id, "source_id"), **options)
        self.skip_excluded = skip_excluded
        # Decides which messages are new, and which are shown.
        self._rules = InMemoryHistoryProvider(skip_excluded=skip_excluded)
        self._conversations = Conversations(store, user_id, agent_id)
        self._store = self._conversations.store

    async def before_run(
        self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]
    ) -> None:
        """Give a run the history, without calls of tools that nothing answers, and the reverse.

        A process that is killed in a tool leaves such a call, and a model refuses it. It stays
        stored. A call that waits for a person's approval is left to the framework.
        """
        await super().before_run(agent=agent, session=session, context=context, state=state)
        history, run = context.context_messages[self.source_id], _RUN.get()
        answered = set().union(*map(_calls, context.input_messages))
        if run and run.conversation_id == self._conversation(session.session_id):
            # An earlier run has asked for the calls that the client has made.
            waiting: dict[str, Any] = {}
            for item in _contents(history):
                if item.type == "function_call":
                    waiting[item.call_id] = item
                elif item.type == "function_result":
                    waiting.pop(item.call_id, None)
            _note_asked(run, [waiting[call_id] for call_id in answered & waiting.keys()])
            _note_given(run, context.input_messages)
        if session.state.get(DEFAULT_TOOL_APPROVAL_SOURCE_ID):
            # With an answer to one of the calls that waited, the run makes the others beside it.
            for asked in map(_calls, history):
                answered |= asked if asked & answered else set()
        context.context_messages[self.source_id] = _whole(history, answered)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, oldest first; flagged ones are left out.

        Raises:
            ValueError: the session's id is missing.
        """
        stored = await self._store.get_messages_by_conversation_id(self._conversation(session_id))
        found = [_message(message) for message in stored if not message.is_flagged]
        return await self._rules.get_messages(None, state={"messages": found})

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Append the messages that are new, all of them or none.

        If the messages begin with what the session ends with, as when a client sends the whole
        transcript again, that is left out, as the framework's own providers do it.

        Raises:
            ValueError: the session's id is missing.
            TypeError: a message cannot be stored; none is.
        """
        conversation_id = self._conversation(session_id)
        if messages:
            await finished(retry_conflicts(partial(self._append, conversation_id, messages)))

    def recorder(self) -> list[Any]:
        """Return middleware for an agent, which stores the traces of its runs with this history.

        A trace is stored with the messages of its run in one step. Of a run that fails the
        framework stores no messages; its trace belongs to a flagged message, which no agent sees.
        An untitled conversation gets a title from the user's first message.
        """

        def begin(session_id: str) -> RunRecorder:
            return self._conversations.recorder(self._conversation(session_id))

        return [_Runs(begin), _Models(), _Tools()]

    async def _append(self, conversation_id: str, messages: Sequence[Message]) -> None:
        stored = await self._store.get_messages_by_conversation_id(
            conversation_id, order="newest", limit=len(messages) + 1
        )
        known = [_message(message) for message in reversed(stored) if _KEY in message.metadata]
        state = {"messages": known}
        await self._rules.save_messages(None, messages, state=state)
        items = [message.to_dict() for message in state["messages"][len(known) :]]
        ids = {"conversation_id": conversation_id, "user_id": self._conversations.user_id}
        new = [item_message(_KEY, item, described(_described, item), **ids) for item in items]
        run = _RUN.get()
        runs = [(run, new)] if run and run.conversation_id == conversation_id else []
        last = stored[0].id if stored else None
        await self._conversations.append(conversation_id, new, last, runs)

    def _conversation(self, session_id: str | None) -> str:
        name = quote(require_session_id(session_id), safe="")
        return f"{name}/{quote(self.source_id, safe='')}"


def _whole(messages: list[Message], answered: set[str]) -> list[Message]:
    """Take halves of pairs out of copies of a history's messages, and return what is left.

    Args:
        messages: the copies.
        answered: the calls that are answered after the history.
    """
    parts: list[Part] = []
    for message in messages:
        other = "said" if message.role == "assistant" else "other"
        for content in message.contents:
            kind: Any = _KINDS.get(content.type, other)
            parts.append(Part(kind, str(content.call_id)))
        parts.append(Part("end"))
    later = [Part("answer", call) for call in answered] + [Part("other")]
    stays = iter(whole([*parts, *later]))
    kept = []
    for message in messages:
        message.contents = [content for content in message.contents if next(stays)]
        next(stays)
        kept += [message] if message.contents else []
    return kept


def _calls(message: Message) -> set[str]:
    """Return the ids of the calls that a message has, or the results or approvals of."""
    calls = (content.function_call or content for content in message.contents)
    return {str(call.call_id) for call in calls if call.call_id is not None}


def _message(stored: records.Message) -> Message:
    """Return the message of a framework; one of no session becomes a message of its text."""
    item = item_of(stored, _KEY, None)
    if item is not None:
        return Message.from_dict(item)
    role = stored.role
    name = "assistant" if role is MessageRole.COLLEAGUE_ASSISTANT else role.value
    return Message(name, [stored.original_content])


def _described(item: dict[str, Any]) -> Described:
    contents: list[Any] = item.get("contents") or []
    calls = [content for content in contents if content.get("type") == "function_call"]
    tools = [str(call.get("name")) for call in calls]
    return Described(role_of(item.get("role")) or MessageRole.ASSISTANT, text_of(contents), tools)


class _Runs(AgentMiddleware):
    def __init__(self, begin: Callable[[str], RunRecorder]) -> None:
        self._begin = begin

    async def process(self, context: Any, call_next: CallNext) -> None:
        """Record a run of an agent with a session."""
        if context.session is None:
            await call_next()
            return
        outer, run = _RUN.get(), self._begin(context.session.session_id)
        _RUN.set(run)

        async def end(response: Any = None, error: BaseException | None = None) -> Any:
            # What is done next is not of this run.
            _RUN.set(outer)
            await finished(run.finish(error))
            return response

        async def end_early() -> None:
            # A reader that leaves a stream leaves a call that does not end.
            if run.has_open_calls:
                await end()

        if context.stream:
            # It only begins here, and goes on in the task of its reader.
            context.stream_cleanup_hooks.append(end_early)
            context.stream_result_hooks.append(end)
        try:
            await call_next()
        except BaseException as error:
            await end(error=None if isinstance(error, MiddlewareTermination) else error)
            raise
        if not context.stream:
            await end()
        elif context.result is not None:
            finish_when_dropped(run, context.result)


class _Models(ChatMiddleware):
    async def process(self, context: Any, call_next: CallNext) -> None:
        """Record a call of a model."""
        run, key = _RUN.get() or unrecorded(), object()
        _note_given(run, context.messages)
        named = (context.options or {}).get("model")
        run.begin_model_call(key, str(named or type(context.client).__name__))

        def note_answer(response: Any) -> Any:
            usage, model = _counts(response.usage_details or {}), getattr(response, "model", None)
            run.end_model_call(key, usage, model=model)
            _note_asked(run, _contents(response.messages))
            return response

        if context.stream:
            context.stream_result_hooks.append(note_answer)
        try:
            await call_next()
        except BaseException as error:
            run.end_model_call(key, error=error)
            raise
        if not context.stream:
            note_answer(context.result)


class _Tools(FunctionMiddleware):
    async def process(self, context: Any, call_next: CallNext) -> None:
        """Record a call of a tool."""
        run, key = _RUN.get() or unrecorded(), object()
        call_id = context.metadata.get("call_id") or ""
        run.begin_tool_call(key, context.function.name, context.arguments, call_id)
        try:
            await call_next()
        except BaseException as error:
            run.end_tool_call(key, error=error)
            raise
        run.end_tool_call(key, _plain(context.result))


def _note_asked(run: RunRecorder, contents: list[Any]) -> None:
    for call in contents:
        if call.type == "function_call":
            run.ask_tool_call(call.call_id, call.name, parsed_json(call.arguments))


def _note_given(run: RunRecorder, messages: Any) -> None:
    """Note which calls a person has rejected, and which have an answer without having run."""
    for content in _contents(messages):
        if content.type == "function_result":
            run.answer_tool_call(content.call_id, content.result, is_error=bool(content.exception))
        elif content.type == "function_approval_response" and not content.approved:
            _note_asked(run, [content.function_call])
            run.answer_tool_call(content.function_call.call_id, "a person has rejected the call")


def _contents(messages: Any) -> list[Any]:
    return [content for message in messages or () for content in getattr(message, "contents", ())]


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    return value.to_dict() if hasattr(value, "to_dict") else value


def _counts(usage: Mapping[str, Any]) -> dict[str, int | None]:
    return {
        "prompt_tokens": usage.get("input_token_count"),
        "completion_tokens": usage.get("output_token_count"),
        "total_tokens": usage.get("total_token_count"),
        "cached_prompt_tokens": usage.get("cache_read_input_token_count"),
        "cache_write_tokens": usage.get("cache_creation_input_token_count"),
        "reasoning_tokens": usage.get("reasoning_output_token_count"),
    }
