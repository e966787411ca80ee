"""The trace of one run of a framework's agent, stored beside the messages of the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, TypeVar, cast

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine.adapters._calls import retry_conflicts
from jazzmine.adapters._encoding import readable
from jazzmine.adapters._items import text_of
from jazzmine.errors import ConflictError, IntegrityError, NotFoundError
from jazzmine.records.messages import Conversation, Message, MessageRole
from jazzmine.records.recorded_calls import ModelCall, ToolCall
from jazzmine.records.storable import storable_json
from jazzmine.records.traces import TurnTrace
from jazzmine.records.turn_recorder import TurnRecorder
from jazzmine.records.usage import TraceFilter

K = TypeVar("K")
V = TypeVar("V")

_TITLE_LENGTH = 60

# Some frameworks call recorders, and savers, in several threads.
_REMEMBERING = Lock()

# Traces are listed by when their runs began: of so many runs at once the highest number is found.
_RUNS_AT_ONCE = 8


class RunRecorder:
    """Measures the calls of one run, and stores their trace with the messages of the run.

    A framework hands over messages while the run goes on, or at its end, and may be killed at any
    moment. So the trace is stored in one step with the first messages of the run that hold one of
    the assistant, and belongs to the last such. What is recorded later is stored before the next
    messages are, and at the end, whatever ended the run. A run that stores no such message leaves
    its trace with its last message, or, if it stored none, with a flagged message of its own, which
    no agent gets to see; one that called neither a model nor a tool, and did not fail, leaves none.

    Args:
        store: an open message store with the async API.
        conversation_id: the conversation of the run's messages.
        user_id: the user of the run.
        agent_id: the agent that runs.

    Attributes:
        store: the store; another form of it may take its place.
        user_id: the user, who may be known only when messages are stored.
        metadata: that of the conversation, if the run has to make it.
        first_id: the message of the run that was stored first, or None.
        last_id: the message of the run that was stored last, or None.
        is_redacted: whether a message of the run was redacted, and the trace must not repeat it.
    """

    def __init__(
        self, store: AsyncMessageStore, conversation_id: str, user_id: str, agent_id: str
    ) -> None:
        self.conversation_id: str = conversation_id
        self.store: AsyncMessageStore = store
        self.user_id: str = user_id
        self.metadata: dict[str, Any] = {}
        self.first_id: str | None = None
        self.last_id: str | None = None
        self.is_redacted = False
        self._agent_id = agent_id
        self._turn = TurnRecorder(
            conversation_id=conversation_id, user_id=user_id or "unknown", agent_id=agent_id
        )
        self._models: dict[object, ModelCall] = {}
        # Calls that are made at once may have the same key: some providers give all the same id.
        self._tools: dict[object, list[ToolCall]] = {}
        # The calls of tools that models have asked for, and that have not begun, by their ids.
        self._asked: dict[str, tuple[str, object]] = {}
        self._begun: set[object] = set()
        self._total: Mapping[str, int | None] = {}
        self._stored: TurnTrace | None = None
        self._title, self._has_title = "", False

    # What is recorded. A call is found again by its key.

    def begin_model_call(self, key: object, model: str, provider: str = "") -> None:
        """Note that a model is called."""
        call = self._turn.model_call(model, provider=provider)
        call.begin()
        self._models[key] = call

    def end_model_call(
        self,
        key: object,
        usage: Mapping[str, int | None] | None = None,
        *,
        model: str | None = None,
        error: BaseException | str | None = None,
    ) -> None:
        """Note the end of a model's call."""
        call = self._models.pop(key, None)
        if call is None:
            return
        if model:
            call.record.model = readable(model)
        call.end(error)
        if usage:
            call.usage(**_counts(usage))

    def forget_model_call(self, key: object) -> None:
        """Leave out a call that did not take place."""
        self._models.pop(key, None)

    def note_total(self, usage: Mapping[str, int | None]) -> None:
        """Note what the whole run has used until now, with the agents that it has called.

        What no recorded call has used is recorded at the end as one call of nested agents.
        """
        self._total = usage

    def begin_tool_call(self, key: object, name: str, arguments: object, call_id: str) -> None:
        """Note that a tool is called, with any arguments; "" is a call whose id is not known."""
        if not call_id:
            given = (name, storable_json(arguments))
            # A copy: tools may be called in several threads.
            asked = [call_id for call_id, call in list(self._asked.items()) if call == given]
            call_id = asked[0] if asked else ""
        call = self._turn.tool_call(name, arguments, call_id=call_id)
        call.begin()
        self._tools.setdefault(key, []).append(call)
        self._begun.add(call_id)
        self._asked.pop(call_id, None)

    def end_tool_call(
        self, key: object, result: object = None, *, error: BaseException | str | None = None
    ) -> None:
        """Note the end of a tool's call, with any result, or why there is none."""
        calls = self._tools.pop(key, [])
        if calls:
            first, *others = calls
            first.result(result)
            first.end(error)
            if others:
                self._tools[key] = others

    def forget_tool_call(self, key: object) -> None:
        """Leave out a call that did not take place, or that is made again later."""
        if self._tools.pop(key, None):
            self._begun.discard(key)

    def forget_open_tool_calls(self) -> None:
        """Leave out the calls that have not ended: they wait for a person, and are made again."""
        self._tools.clear()

    def ask_tool_call(self, call_id: str, name: str, arguments: object) -> None:
        """Note that a model has asked for a call, which may be refused, or never run."""
        if call_id and call_id not in self._begun:
            self._asked.setdefault(call_id, (name, arguments))

    def answer_tool_call(self, call_id: str, answer: object, *, is_error: bool = True) -> None:
        """Note what the model is given for a call that it asked for, if that has not begun.

        Args:
            call_id: the call.
            answer: the result, or why there is none: a person has rejected it, say.
            is_error: whether it is no result.
        """
        asked = self._asked.pop(call_id, None)
        if asked is not None:
            key = ("asked", call_id)
            self.begin_tool_call(key, *asked, call_id)
            reason = (text_of(answer) or "the call was refused") if is_error else None
            self.end_tool_call(key, answer, error=reason)

    def note_said(self, messages: Sequence[Message]) -> None:
        """Note messages of the run, of which the user's first one gives a title."""
        said = (
            message.original_content
            for message in messages
            if message.role is MessageRole.USER and not message.is_flagged
        )
        # What a program says in the name of the user is marked up.
        texts = (text for text in map(shortened, said) if text and text[0] != "<")
        self._title = self._title or next(texts, "")

    async def is_known(self, call_id: object) -> bool:
        """Return whether a call was asked for, or has begun, in this run or one shortly before."""
        if call_id in self._asked or call_id in self._begun:
            return True
        newest = await self._newest_traces()
        return any(tool.call_id == call_id for trace in newest for tool in trace.tool_traces)

    @property
    def has_open_calls(self) -> bool:
        """Whether a model or a tool was called that has not answered yet."""
        return bool(self._models or self._tools)

    def measured(self, message_id: str) -> TurnTrace:
        """Return what was recorded until now as the trace of a message."""
        return self._turn.trace_of(message_id)

    # What is stored.

    async def trace_with(
        self, messages: Sequence[Message], *, earlier: TurnTrace | None = None
    ) -> TurnTrace | None:
        """Return the trace to append with messages, or store it, if it is stored already."""
        if self._stored is not None:
            await self._store(self._stored.message_id)
        answers = [message for message in messages if message.role is MessageRole.ASSISTANT]
        if self._stored is not None or not answers:
            return None
        return await self._trace_of(answers[-1].id, earlier)

    async def appended(self, messages: Sequence[Message], trace: TurnTrace | None) -> None:
        """Note that messages were appended with what `trace_with` returned."""
        if not messages:
            return
        self.first_id = self.first_id or messages[0].id
        self.last_id = messages[-1].id
        if trace is not None:
            self._stored = trace
        self.note_said(messages)
        if self._title and not self._has_title:
            with suppress(NotFoundError):
                await self.store.edit_conversation(self.conversation_id, default_title=self._title)
            self._has_title = True

    async def finish(self, error: BaseException | None = None) -> None:
        """Store what is not stored yet."""
        if error is not None and not self.has_open_calls:
            self._turn.error(error)
        self.settle(error)
        if self._stored is not None and await self._store(self._stored.message_id):
            return
        trace = self.measured("unstored")
        if not (trace.errors or trace.llm_calls or trace.tool_traces):
            return
        if self.last_id is not None and await self._store(self.last_id):
            return
        note_id = await self._append_note()
        if note_id is not None:
            await self._store(note_id)

    def settle(self, error: BaseException | None = None) -> None:
        """Note that the run has ended: with an error, what was asked for did not run."""
        reason = error or "the run ended before this call did"
        for key, calls in list(self._tools.items()):
            for _ in list(calls):
                self.end_tool_call(key, error=reason)
        for call in list(self._models.values()):
            call.end(reason)  # and stays: a run whose reader has left may still tell its usage
        for call_id in list(self._asked) if error is not None else ():
            self.answer_tool_call(call_id, f"not run: {text_of(str(error))}")
        self._add_nested()

    def _add_nested(self) -> None:
        """Record what the run has used beyond its own calls of models."""
        total, own = _counts(self._total), self._turn.trace_of("unstored")
        prompt = total.get("prompt_tokens", 0) - own.total_prompt_tokens
        completion = total.get("completion_tokens", 0) - own.total_completion_tokens
        if prompt > 0 or completion > 0:
            self.begin_model_call(self, "nested agents")
            tokens = {"prompt_tokens": max(prompt, 0), "completion_tokens": max(completion, 0)}
            self.end_model_call(self, tokens)

    async def _store(self, message_id: str) -> bool:
        """Store the trace with a message; False if that was deleted."""

        async def attempt() -> TurnTrace:
            trace = await self._trace_of(message_id)
            if trace != self._stored:
                await self.store.store_turn_trace(trace)
            newest = [] if self._stored is not None else await self._newest_traces()
            # A run that has ended at the same time may have taken the number.
            if any(o.turn_number == trace.turn_number and o.id != trace.id for o in newest):
                raise ConflictError("another run has the same number")
            return trace

        try:
            self._stored = await retry_conflicts(attempt, self.store)
        except IntegrityError:
            self._stored = None
        return self._stored is not None

    async def _trace_of(self, message_id: str, earlier: TurnTrace | None = None) -> TurnTrace:
        trace = self.measured(message_id)
        if self._stored is not None:
            number = self._stored.turn_number
        elif earlier is not None:
            number = earlier.turn_number + 1
        else:
            newest = await self._newest_traces()
            # It is among them if it was stored, and the reply was lost.
            others = [other.turn_number for other in newest if other.id != trace.id]
            number = max(others, default=0) + 1
        trace = redacted(trace) if self.is_redacted else trace
        return trace.model_copy(update={"turn_number": number, "user_id": self.user_id})

    async def _newest_traces(self) -> Sequence[TurnTrace]:
        where = TraceFilter(conversation_id=self.conversation_id)
        return await self.store.find_turn_traces(where, limit=_RUNS_AT_ONCE)

    async def _append_note(self) -> str | None:
        """Append a flagged message, and return its id; None if the conversation was deleted."""
        note = Message(
            conversation_id=self.conversation_id,
            user_id=self.user_id,
            role=MessageRole.SYSTEM,
            original_content="[the run stored no answer]",
            is_flagged=True,
        )
        if self.last_id is None:
            conversation = Conversation(
                id=self.conversation_id,
                user_id=self.user_id,
                agent_id=self._agent_id,
                metadata=self.metadata,
            )
            await self.store.get_or_create_conversation(conversation)
        try:
            await self.store.append_messages(self.conversation_id, [note])
        except IntegrityError:
            return None
        return note.id


def unrecorded() -> RunRecorder:
    """Return a recorder of no run, for calls that nobody records."""
    return RunRecorder(cast(AsyncMessageStore, None), "none", "", "none")


def remember(kept: dict[K, V], key: K, value: V, most: int = 1_000) -> None:
    """Keep a value, and forget those that were kept longest ago beyond so many."""
    with _REMEMBERING:
        kept.pop(key, None)
        kept[key] = value
        while len(kept) > most:
            del kept[next(iter(kept))]


def redacted(trace: TurnTrace) -> TurnTrace:
    """Return a trace without what its calls were given and gave back, which may repeat a text."""
    hidden = "[redacted]"
    changes: dict[str, Any] = {"arguments": None, "final_data": None, "traceback": None}
    tools = [
        tool.model_copy(update={**changes, "error": hidden if tool.error else None})
        for tool in trace.tool_traces
    ]
    return trace.model_copy(update={"tool_traces": tools, "errors": [hidden for _ in trace.errors]})


def parsed_json(text: object) -> Any:
    """Return the value of a JSON text, as models write arguments; anything else as it is."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def shortened(text: str) -> str:
    """Return the title that a text gives a conversation."""
    words = " ".join(text[:1000].split())
    if len(words) <= _TITLE_LENGTH:
        return words
    # Some languages have no spaces between words, and a link has none.
    whole = words[:_TITLE_LENGTH].rpartition(" ")[0]
    return (whole if len(whole) > _TITLE_LENGTH // 2 else words[: _TITLE_LENGTH - 1]) + "…"


def _counts(usage: Mapping[str, int | None]) -> dict[str, int]:
    return {name: count for name, count in usage.items() if count is not None}
