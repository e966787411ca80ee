"""Sessions of the OpenAI Agents SDK (`openai-agents`) in a message store."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import fields
from typing import Any

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.adapters._calls import (
    Conversations,
    called_directly,
    finished,
    newest_shown,
    require_session_id,
    require_several,
)
from jazzmine.adapters._direct import completed, retry_conflicts
from jazzmine.adapters._items import (
    Described,
    call_text,
    described,
    item_message,
    item_of,
    role_of,
    text_of,
)
from jazzmine.adapters._pairs import Part, whole
from jazzmine.adapters._recorder import RunRecorder, parsed_json
from jazzmine.adapters._versions import supported
from jazzmine.errors import ConflictError
from jazzmine.records.messages import Message, MessageRole

with supported("openai-agents", "0.23.1", "1.0"):
    from agents import RunHooks
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings
    from agents.models import get_default_model

__all__ = ["JazzmineRunHooks", "JazzmineSession"]

_KEY = "openai_agents"
_NO_ITEM = object()

# What the SDK gives a model in place of the result of a function tool that raised, or timed out.
_TOOL_FAILED = re.compile(r"An error occurred while running the tool|Tool '.*' timed out after ")

# Among how many of the newest items the call is looked for that a person has rejected.
_ASKED_BEFORE = 50

# The text in place of the output of a call that a person, or a guardrail, did not let run.
_NOT_RUN = "the call was not run"

# The run that the code of a task belongs to.
_RUN: ContextVar[RunRecorder | None] = ContextVar("jazzmine_run", default=None)


class JazzmineSession:
    """A session whose items are the messages of one conversation.

    Implements `agents.memory.Session`. The conversation is stored with the first items. It keeps
    nothing in memory but its settings, so any number of sessions, in any processes, may use one
    `session_id` at once.

    Args:
        store: an open message store; with a sync one, calls run in worker threads, and the
            session may be used from several event loops (`Runner.run_sync`).
        session_id: the id of the conversation.
        user_id: the user of the conversation, if it is not stored yet, and of its new messages.
        agent_id: the agent of the conversation, if it is not stored yet.
        session_settings: how many items `get_items` returns by default.

    Raises:
        ValueError: an id is missing.
        TypeError: an argument is of another type, or `session_settings` has an unknown key.
    """

    def __init__(
        self,
        store: AsyncMessageStore | MessageStore,
        session_id: str,
        *,
        user_id: str,
        agent_id: str,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id: str = require_session_id(session_id)
        self.session_settings: SessionSettings | None = _settings(session_settings)
        self._conversations = Conversations(store, user_id, agent_id)
        self._store = self._conversations.store

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the newest items, oldest first; flagged messages are left out.

        A model refuses the output of a tool without its call, a call without its output, and
        reasoning without what followed it. So each is left out with the other, whatever took that;
        a call that nothing but calls and outputs follow stays, since it may still be answered.

        Args:
            limit: how many at most; by default that of `session_settings`, which is all by
                default. 0 or less is none.
        """
        if limit is None:
            limit = _settings(self.session_settings).limit
        if limit is None:
            stored = await self._store.get_messages_by_conversation_id(self.session_id)
            return _whole(stored)
        # One more, since reasoning that the limit cuts off takes along what follows it.
        newest = await newest_shown(self._store, self.session_id, max(limit, 0) + 1)
        return _whole(newest, limit=max(limit, 0))

    async def add_items(self, items: Sequence[TResponseInputItem]) -> None:
        """Append items to the session, all of them or none.

        Raises:
            TypeError, ValueError: an item cannot be stored, or one is passed instead of a list;
                none is stored.
        """
        require_several(items, "items")
        ids = {"conversation_id": self.session_id, "user_id": self._conversations.user_id}
        messages = [item_message(_KEY, item, described(_described, item), **ids) for item in items]
        if messages:
            run = _RUN.get()
            # An agent may run another one, with a session of its own.
            is_mine = run is not None and run.conversation_id == self.session_id
            runs = [(run, messages)] if run is not None and is_mine else []
            for item in items if runs else ():
                await self._note_item(runs[0][0], item)
            await finished(self._conversations.append(self.session_id, messages, runs=runs))

    async def _note_item(self, run: RunRecorder, item: Any) -> None:
        kind, key = _part(item)
        if kind == "answer" and not run.has_call(key):
            # A person has answered what an earlier run has asked for.
            for message in await newest_shown(self._store, self.session_id, _ASKED_BEFORE):
                if _part(_item(message)) == ("call", key):
                    _note_item(run, _item(message))
        _note_item(run, item)

    async def pop_item(self) -> TResponseInputItem | None:
        """Delete the newest item that is not flagged and return it, or None.

        No two calls return the same one. Its trace is deleted with it.
        """
        return await finished(self._pop())

    async def _pop(self) -> TResponseInputItem | None:
        while newest := await newest_shown(self._store, self.session_id, 1):
            if await self._store.delete_message(newest[0].id):
                return _item(newest[0])
        return None

    async def clear_session(self) -> None:
        """Delete all items, with their traces; the conversation itself stays.

        What the runs have used is not counted any more. A compaction keeps it (see the page).
        """
        await finished(self._store.rewind_conversation(self.session_id, after=None))

    # What `OpenAIResponsesCompactionSession` asks a session for. It keeps the originals, flagged,
    # with their traces.

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> Any:
        from agents.memory.session import _CompactionSnapshot  # not public: only where it is asked

        stored = await self._store.get_messages_by_conversation_id(self.session_id)
        visible = [message for message in stored if not message.is_flagged]
        shown = visible[-limit:]

        async def replace(start: int, items: list[TResponseInputItem]) -> bool:
            try:
                await self._compact(shown[start:], items, stored[-1].id)
            except ConflictError:
                return False
            return True

        return _CompactionSnapshot(
            [_item(message) for message in shown],
            len(shown) == len(visible),
            lambda start, items: finished(replace(start, items)),
        )

    async def _atomic_replace_items(self, items: list[TResponseInputItem]) -> bool:
        async def attempt() -> None:
            stored = await self._store.get_messages_by_conversation_id(self.session_id)
            visible = [message for message in stored if not message.is_flagged]
            await self._compact(visible, items, stored[-1].id if stored else None)

        await finished(retry_conflicts(attempt))
        return True

    async def _compact(
        self, replaced: Sequence[Message], items: Sequence[TResponseInputItem], last: str | None
    ) -> None:
        """Append items if a message is still the newest, and flag those that they replace."""
        ids = {"conversation_id": self.session_id, "user_id": self._conversations.user_id}
        messages = [item_message(_KEY, item, described(_described, item), **ids) for item in items]
        await self._conversations.append(self.session_id, messages, last)
        for message in replaced:
            await self._store.flag_message(message.id)

    def recorder(self) -> JazzmineRunHooks:
        """Return hooks for one run, which store its trace beside its messages."""
        return JazzmineRunHooks(self._conversations, self.session_id)


class JazzmineRunHooks(RunHooks[Any]):
    """The hooks of one run, which record its calls of models and tools, and its errors.

    Made by `JazzmineSession.recorder`, and used around the run, as `async with` or, with a sync
    store, `with`:

        async with session.recorder() as hooks:
            result = await Runner.run(agent, "Will it rain?", session=session, hooks=hooks)

    An untitled conversation gets a title from the user's first message.
    """

    def __init__(self, conversations: Conversations, session_id: str) -> None:
        self._conversations, self._session_id = conversations, session_id
        self._run: RunRecorder | None = None
        self._outer: RunRecorder | None = None
        # What the run has used: a run that is resumed begins with what was used before.
        self._usage: Any = None
        self._used_before = (0, 0)

    async def __aenter__(self) -> JazzmineRunHooks:
        return self._begin()

    async def __aexit__(self, kind: object, error: BaseException | None, at: object) -> None:
        await finished(self._end().finish(error))

    def __enter__(self) -> JazzmineRunHooks:
        called_directly(self._conversations.given)
        return self._begin()

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        run = self._end()
        run.store = called_directly(self._conversations.given)
        completed(run.finish(error))

    def _begin(self) -> JazzmineRunHooks:
        self._run = self._conversations.recorder(self._session_id)
        self._outer = _RUN.get()
        _RUN.set(self._run)
        return self

    def _end(self) -> RunRecorder:
        _RUN.set(self._outer)
        run = self._recorded
        if self._usage is not None:
            prompt, completion = self._used_before
            run.note_total(
                {
                    "prompt_tokens": self._usage.input_tokens - prompt,
                    "completion_tokens": self._usage.output_tokens - completion,
                }
            )
        return run

    @property
    def _recorded(self) -> RunRecorder:
        if self._run is None:
            raise RuntimeError("use the recorder around the run: async with session.recorder()")
        return self._run

    def _note_context(self, context: Any) -> None:
        if self._usage is None:
            self._usage = context.usage
            self._used_before = (self._usage.input_tokens, self._usage.output_tokens)

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: str | None, input_items: Any
    ) -> None:
        """Note that a model is called."""
        self._note_context(context)
        self._recorded.begin_model_call((id(context), agent.name), *_model_of(agent))

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Note what a model's call used."""
        used = response.usage
        usage = {
            "prompt_tokens": used.input_tokens,
            "completion_tokens": used.output_tokens,
            "total_tokens": used.total_tokens,
            "cached_prompt_tokens": getattr(used.input_tokens_details, "cached_tokens", None),
            "cache_write_tokens": getattr(used.input_tokens_details, "cache_write_tokens", None),
            "reasoning_tokens": getattr(used.output_tokens_details, "reasoning_tokens", None),
        }
        self._recorded.end_model_call((id(context), agent.name), usage)
        for item in response.output:
            _note_item(self._recorded, _plain(item))

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Note that a tool is called."""
        self._note_context(context)
        call_id = getattr(context, "tool_call_id", "")
        arguments = parsed_json(getattr(context, "tool_arguments", None))
        self._recorded.begin_tool_call(call_id or id(tool), tool.name, arguments, call_id)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
        """Note what a tool returned."""
        key = getattr(context, "tool_call_id", "") or id(tool)
        failed = isinstance(result, str) and _TOOL_FAILED.match(result)
        self._recorded.end_tool_call(key, result, error=str(result) if failed else None)


def _model_of(agent: Any) -> tuple[str, str]:
    """Return the names of an agent's model and of its provider, as far as they are known."""
    model = get_default_model() if agent.model is None else agent.model
    if isinstance(model, str):
        provider, _, name = model.rpartition("/")
        return name, provider or "openai"
    return str(getattr(model, "model", type(model).__name__)), ""


def _plain(item: Any) -> Any:
    return item if isinstance(item, dict) else item.model_dump(exclude_unset=True)


def _whole(stored: Sequence[Message], *, limit: int | None = None) -> list[Any]:
    """Return the items of messages that are not flagged, without halves of pairs."""
    items = [_item(message) for message in stored]
    parts = [
        Part(*_part(item), message.is_flagged) for item, message in zip(items, stored, strict=True)
    ]
    if limit is not None and len(parts) > limit:
        parts[0] = parts[0]._replace(is_hidden=True)
    return [item for item, stays in zip(items, whole(parts), strict=True) if stays]


def _part(item: Any) -> tuple[Any, str]:
    """Return what an item is to its neighbours, and what it has in common with another one."""
    fields = item if isinstance(item, dict) else {}
    kind = str(fields.get("type", "message"))
    if kind == "message" and "call_id" not in fields:
        return "said" if fields.get("role") == "assistant" else "other", ""
    if kind == "mcp_approval_request":
        return "call", str(fields.get("id"))
    if kind == "mcp_approval_response":
        return "answer", str(fields.get("approval_request_id"))
    if kind == "reasoning":
        return "reasoning", ""
    if isinstance(fields.get("call_id"), str):
        is_answer = kind.endswith("_output")
        return "answer" if is_answer else "call", str(fields["call_id"])
    made = fields.get("role") == "assistant" or kind.endswith("_call")
    return "said" if made else "other", ""


def _note_item(run: RunRecorder, item: Any) -> None:
    """Note a call of a tool that a model has asked for, or what it is given for one."""
    kind, key = _part(item)
    if kind == "call":
        arguments = parsed_json(item.get("arguments") or item.get("input") or item.get("action"))
        run.ask_tool_call(key, str(item.get("name") or item.get("type")), arguments)
    elif kind == "answer":
        run.answer_tool_call(key, item.get("output") or _NOT_RUN)


def _settings(given: SessionSettings | dict[str, Any] | None) -> SessionSettings:
    if isinstance(given, SessionSettings):
        return given
    if given is not None and not isinstance(given, dict):
        raise TypeError(
            f"session_settings must be SessionSettings or a dict, not {type(given).__name__}"
        )
    values = given or {}
    if unknown := values.keys() - {field.name for field in fields(SessionSettings)}:
        # These are the SDK's own words.
        raise TypeError(f"Unknown session settings: {', '.join(sorted(map(str, unknown)))}")
    return SessionSettings(**values)


def _item(message: Message) -> Any:
    """Return the item of a message; one that no session has stored becomes an item of its text."""
    item = item_of(message, _KEY, _NO_ITEM)
    if item is not _NO_ITEM:
        return item
    role = message.role.value if message.role.value in ("user", "system") else "assistant"
    return {"role": role, "content": message.original_content}


def _described(item: Any) -> Described:
    if not isinstance(item, dict):
        return Described(MessageRole.ASSISTANT, text_of(item))
    role, kind = role_of(item.get("role")), str(item.get("type"))
    if role is not None:
        return Described(role, text_of(item.get("content")))
    if "__enc__" in item:  # an item of the SDK's `EncryptedSession`
        return Described(MessageRole.ASSISTANT, "[encrypted]")
    if kind.endswith("_output"):
        return Described(MessageRole.TOOL, text_of(item.get("output")))
    if kind.endswith("_call"):
        tool = str(item.get("name") or kind.removesuffix("_call"))
        given = (item[key] for key in ("arguments", "input", "action") if item.get(key))
        return Described(MessageRole.ASSISTANT, call_text(tool, next(given, None)), [tool])
    parts = text_of(item.get("summary")) or text_of(item.get("content"))
    return Described(MessageRole.ASSISTANT, parts or f"[{kind}]")
