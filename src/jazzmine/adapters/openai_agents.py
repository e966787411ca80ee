"""Sessions of the OpenAI Agents SDK (`openai-agents`) in a message store."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import fields
from types import TracebackType
from typing import Any

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.adapters._calls import (
    Conversations,
    called_directly,
    completed,
    finished,
    require_session_id,
    require_several,
)
from jazzmine.adapters._items import Described, call_text, item_message, item_of, role_of, text_of
from jazzmine.adapters._recorder import RunRecorder, parsed_json
from jazzmine.adapters._versions import supported
from jazzmine.records.messages import Message, MessageRole

with supported("openai-agents", "0.8.0", "1.0"):
    from agents import RunHooks
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings
    from agents.models import get_default_model

__all__ = ["JazzmineRunHooks", "JazzmineSession"]

_KEY = "openai_agents"
_NO_ITEM = object()

# What the SDK gives a model in place of the result of a function tool that raised.
_TOOL_FAILED = "An error occurred while running the tool"

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

        A model refuses the output of a tool without its call, so an output is left out with its
        call. Of all items, those that were never a pair are returned as they were added.

        Args:
            limit: how many at most; by default that of `session_settings`, which is all by
                default. 0 or less is none.
        """
        if limit is None:
            limit = _settings(self.session_settings).limit
        if limit is None:
            stored = await self._store.get_messages_by_conversation_id(self.session_id)
            hidden = {_pair(_item(message)) for message in stored if message.is_flagged}
            items = [_item(message) for message in stored if not message.is_flagged]
            return [item for item in items if not _is_answer(item) or _pair(item) not in hidden]
        newest = await self._store.get_immediate_context(self.session_id, max(limit, 0))
        return _answers_with_calls([_item(message) for message in newest])

    async def add_items(self, items: Sequence[TResponseInputItem]) -> None:
        """Append items to the session, all of them or none.

        Raises:
            TypeError, ValueError: an item cannot be stored, or one is passed instead of a list;
                none is stored.
        """
        require_several(items, "items")
        ids = {"conversation_id": self.session_id, "user_id": self._conversations.user_id}
        messages = [item_message(_KEY, item, _described(item), **ids) for item in items]
        if messages:
            run = _RUN.get()
            # An agent may run another one, with a session of its own.
            is_mine = run is not None and run.conversation_id == self.session_id
            runs = [(run, messages)] if run is not None and is_mine else []
            await finished(self._conversations.append(self.session_id, messages, runs=runs))

    async def pop_item(self) -> TResponseInputItem | None:
        """Delete the newest item and return it, or None; no two calls return the same one."""
        message = await finished(self._store.pop_message(self.session_id))
        return None if message is None else _item(message)

    async def clear_session(self) -> None:
        """Delete all items, with their traces; the conversation itself stays."""
        await finished(self._store.rewind_conversation(self.session_id, after=None))

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

    async def __aenter__(self) -> JazzmineRunHooks:
        return self._begin()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await finished(self._end().finish(error))

    def __enter__(self) -> JazzmineRunHooks:
        called_directly(self._conversations.given)
        return self._begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
        return self._recorded

    @property
    def _recorded(self) -> RunRecorder:
        if self._run is None:
            raise RuntimeError("use the recorder around the run: async with session.recorder()")
        return self._run

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: str | None, input_items: Any
    ) -> None:
        """Note that a model is called."""
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

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Note that a tool is called."""
        call_id = getattr(context, "tool_call_id", "")
        arguments = parsed_json(getattr(context, "tool_arguments", None))
        self._recorded.begin_tool_call(call_id or id(tool), tool.name, arguments, call_id)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
        """Note what a tool returned."""
        key = getattr(context, "tool_call_id", "") or id(tool)
        failed = isinstance(result, str) and result.startswith(_TOOL_FAILED)
        self._recorded.end_tool_call(key, result, error=str(result) if failed else None)


def _model_of(agent: Any) -> tuple[str, str]:
    """Return the names of an agent's model and of its provider, as far as they are known."""
    model = get_default_model() if agent.model is None else agent.model
    if isinstance(model, str):
        provider, _, name = model.rpartition("/")
        return name, provider or "openai"
    return str(getattr(model, "model", type(model).__name__)), ""


def _pair(item: Any) -> object:
    """Return what a call and its answer have in common, or None."""
    if not isinstance(item, dict):
        return None
    kind = str(item.get("type"))
    if kind.startswith("mcp_approval_"):
        key = item.get("approval_request_id" if kind == "mcp_approval_response" else "id")
    else:
        key = item.get("call_id")
    return key if isinstance(key, str) else None


def _is_answer(item: Any) -> bool:
    kind = str(item.get("type")) if isinstance(item, dict) else ""
    return kind == "mcp_approval_response" or (kind.endswith("_output") and "call_id" in item)


def _answers_with_calls(items: list[Any]) -> list[Any]:
    """Return items without the answers to calls that are not among them."""
    calls: set[object] = set()
    kept = []
    for item in items:
        if _is_answer(item) and _pair(item) not in calls:
            continue
        calls.add(_pair(item))
        kept.append(item)
    return kept


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


def _described(item: object) -> Described:
    if not isinstance(item, dict):
        return Described(MessageRole.ASSISTANT, text_of(item))
    role, kind = role_of(item.get("role")), str(item.get("type"))
    if role is not None:
        return Described(role, text_of(item.get("content")))
    if kind.endswith("_output"):
        return Described(MessageRole.TOOL, text_of(item.get("output")))
    if kind.endswith("_call"):
        tool = str(item.get("name") or kind.removesuffix("_call"))
        given = (item[key] for key in ("arguments", "input", "action") if item.get(key))
        return Described(MessageRole.ASSISTANT, call_text(tool, next(given, None)), [tool])
    parts = text_of(item.get("summary")) or text_of(item.get("content"))
    return Described(MessageRole.ASSISTANT, parts or f"[{kind}]")
