"""Sessions of Strands Agents (`strands-agents`) in a message store."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from jazzmine._sync.message_store.store import MessageStore
from jazzmine.adapters._calls import called_directly, completed, require_session_id, retry_conflicts
from jazzmine.adapters._conversations import append_with_traces, redact, retitle
from jazzmine.adapters._encoding import decoded, encoded
from jazzmine.adapters._items import (
    Described,
    call_text,
    described,
    item_message,
    item_of,
    role_of,
    text_of,
)
from jazzmine.adapters._recorder import RunRecorder
from jazzmine.adapters._versions import supported
from jazzmine.errors import ConflictError, IntegrityError, NotFoundError
from jazzmine.records.messages import Conversation, Message, MessageRole

with supported("strands-agents", "1.55.0", "2.0"):
    from strands.session.session_repository import SessionRepository
    from strands.types.exceptions import SessionException
    from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

    from jazzmine.adapters._strands_hooks import JazzmineHooks, Runs

if TYPE_CHECKING:
    from strands.multiagent import MultiAgentBase

__all__ = ["JazzmineSessionRepository"]

_KEY = "strands"

# The key in the metadata of the conversations of a session's agents and multi-agents.
_SESSION = "strands_session"


class JazzmineSessionRepository(SessionRepository):
    """Sessions of Strands Agents: one conversation for a session, and one for each of its agents.

    Implements `strands.session.session_repository.SessionRepository`, for
    `strands.session.repository_session_manager.RepositorySessionManager`. The conversation of an
    agent, `SESSION/AGENT`, holds its messages, and in its metadata its state; that of a multi-agent
    its state alone. It keeps nothing in memory, so any number of threads and processes may use one
    session at once.

    Args:
        store: an open message store with the sync API.
        user_id: the user of new conversations and messages.
        agent_id: the agent of new conversations.

    Raises:
        ValueError: an id is missing.
        TypeError: an argument is of another type.
    """

    def __init__(self, store: MessageStore, *, user_id: str, agent_id: str) -> None:
        self._store, self._recorded_store = store, called_directly(store)
        self._user_id = require_session_id(user_id, "user_id")
        self._agent_id = require_session_id(agent_id, "agent_id")
        # The agents whose runs are recorded now, which may share a conversation.
        self._runs: Runs = {}

    def recorder(self, session_id: str) -> JazzmineHooks:
        """Return hooks for agents of a session, which store the traces of their runs.

        Args:
            session_id: the session of the agents' session manager.
        """
        _joined(session_id)
        return JazzmineHooks(self._runs, partial(self._begin_run, session_id))

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Store a new session.

        Raises:
            SessionException: it exists.
        """
        payload = encoded({"session": asdict(session), "token": str(uuid4())})
        stored = self._conversation(_joined(session.session_id), {_KEY: payload})
        if stored.metadata.get(_KEY) != payload:
            raise SessionException(f"Session {session.session_id} already exists")
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Return a session, or None.

        A session whose own conversation was deleted, or pruned, lives on in its agents.
        """
        payload = self._state(_joined(session_id))
        if payload is not None:
            return Session.from_dict(payload["session"])
        if self._store.get_conversations(where={_SESSION: session_id}, limit=1):
            return Session(session_id=session_id, session_type=SessionType.AGENT)
        return None

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Delete a session with its agents and their messages.

        Raises:
            SessionException: it does not exist.
        """
        conversation_id = _joined(session_id)
        parts = self._store.get_conversations(where={_SESSION: session_id})
        # A copy of an agent's conversation may be part of another session.
        own = [part.id for part in parts if part.id.startswith(f"{conversation_id}/")]
        found = [self._store.delete_conversation(part_id) for part_id in own]
        # The session last, so that a deletion that did not end can be repeated.
        found.append(self._store.delete_conversation(conversation_id))
        if not any(found):
            raise SessionException(f"Session {session_id} does not exist")

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Store the state of a new agent, in place of one that it has already.

        Raises:
            SessionException: the session does not exist.
        """
        key = _joined(session_id, session_agent.agent_id)
        self._create_state(session_id, key, {"agent": asdict(session_agent)})

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Return the state of an agent, or None."""
        payload = self._state(_joined(session_id, agent_id))
        return None if payload is None else SessionAgent.from_dict(payload["agent"])

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Store the state of an agent anew; its `created_at` stays.

        Raises:
            SessionException: the agent does not exist.
        """
        key = _joined(session_id, session_agent.agent_id)
        payload = self._state(key)
        if payload is not None:
            session_agent.created_at = payload["agent"]["created_at"]
        self._put_state(key, {"agent": asdict(session_agent)})

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Append a message to those of an agent.

        If another process has stored a message with this `message_id` or a later one, this one gets
        the next after the newest, in the store and in `session_message`.

        Raises:
            SessionException: the agent does not exist.
            TypeError, ValueError: the message cannot be stored.
        """
        conversation_id, new = _joined(session_id, agent_id), session_message
        number = new.message_id
        last = _message_key(session_id, agent_id, number - 1) if number else None

        async def append() -> None:
            nonlocal last
            message = self._message(session_id, agent_id, new)
            runs = [(run, [message]) for run in self._runs_of(conversation_id, new.message)]
            try:
                await append_with_traces(
                    self._recorded_store, conversation_id, [message], runs, last
                )
            except (ConflictError, IntegrityError) as error:
                if self._store.get_conversation_by_id(conversation_id) is None:
                    raise SessionException(
                        f"Agent {agent_id} in session {session_id} does not exist"
                    ) from error
                stored = self._store.get_messages_by_conversation_id(conversation_id)
                last = stored[-1].id if stored else None
                numbers = [entry.message_id for entry in map(_session_message, stored) if entry]
                new.message_id = max([new.message_id, *(number + 1 for number in numbers)])
                raise ConflictError(str(error)) from error

        completed(retry_conflicts(append, self._recorded_store))

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **kwargs: Any
    ) -> SessionMessage | None:
        """Return a message, or None."""
        message = self._store.get_message_by_id(_message_key(session_id, agent_id, message_id))
        return None if message is None else _session_message(message)

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Store a message anew, as after a redaction; its `created_at` stays.

        Raises:
            SessionException: the message does not exist.
        """
        key = _message_key(session_id, agent_id, session_message.message_id)
        stored = self._store.get_message_by_id(key)
        previous = None if stored is None else _session_message(stored)
        if stored is None or previous is None:
            raise SessionException(f"Message {session_message.message_id} does not exist")
        session_message.created_at = previous.created_at
        new = self._message(session_id, agent_id, session_message)
        self._store.update_message(
            new.model_copy(update={"timestamp": stored.timestamp, "is_flagged": stored.is_flagged})
        )
        if session_message.redact_message is not None:
            self._redact(stored, new)

    def list_messages(
        self,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **kwargs: Any,
    ) -> list[SessionMessage]:
        """Return messages of an agent, by `message_id`; flagged ones are left out.

        Args:
            limit: how many at most.
            offset: the `message_id` of the first one: how many the agent has left out, whether or
                not they are still stored.
        """
        stored = self._store.get_messages_by_conversation_id(_joined(session_id, agent_id))
        found = [_session_message(message) for message in stored if not message.is_flagged]
        return [entry for entry in found if entry and entry.message_id >= offset][:limit]

    def create_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Store the state of a new multi-agent, in place of one that it has already.

        Raises:
            SessionException: the session does not exist.
        """
        key = _multi_agent_key(session_id, multi_agent.id)
        self._create_state(session_id, key, {"multi_agent": multi_agent.serialize_state()})

    def read_multi_agent(
        self, session_id: str, multi_agent_id: str, **kwargs: Any
    ) -> dict[str, Any] | None:
        """Return the state of a multi-agent, or None."""
        payload = self._state(_multi_agent_key(session_id, multi_agent_id))
        return None if payload is None else payload["multi_agent"]

    def update_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Store the state of a multi-agent anew.

        Raises:
            SessionException: it does not exist.
        """
        key, state = _multi_agent_key(session_id, multi_agent.id), multi_agent.serialize_state()
        self._put_state(key, {"multi_agent": state})

    def _begin_run(self, session_id: str, agent_id: str) -> RunRecorder:
        key = _joined(session_id, agent_id)
        run = RunRecorder(self._recorded_store, key, self._user_id, self._agent_id)
        run.metadata = {_SESSION: session_id}
        return run

    def _runs_of(self, conversation_id: str, message: object = None) -> list[RunRecorder]:
        """Return the recorded runs of a conversation, or that of the agent that has a message."""
        return [
            run
            for agent, run in list(self._runs.values())
            if run.conversation_id == conversation_id
            and (message is None or any(known is message for known in agent.messages))
        ]

    def _redact(self, old: Message, new: Message) -> None:
        """Take what a message has said out of its conversation's title and the trace of its run."""
        runs = self._runs_of(old.conversation_id)
        for run in runs:
            run.is_redacted = True
        change = retitle if runs else redact
        completed(change(self._recorded_store, old, new))

    def _conversation(self, conversation_id: str, metadata: dict[str, Any]) -> Conversation:
        conversation = Conversation(
            id=conversation_id, user_id=self._user_id, agent_id=self._agent_id, metadata=metadata
        )
        return self._store.get_or_create_conversation(conversation)

    def _state(self, conversation_id: str) -> dict[str, Any] | None:
        conversation = self._store.get_conversation_by_id(conversation_id)
        payload = None if conversation is None else conversation.metadata.get(_KEY)
        return decoded(payload) if isinstance(payload, str) else None

    def _create_state(self, session_id: str, key: str, state: dict[str, Any]) -> None:
        if self.read_session(session_id) is None:
            raise SessionException(f"Session {session_id} does not exist")
        self._conversation(key, {_SESSION: session_id})
        self._put_state(key, state)

    def _put_state(self, key: str, state: dict[str, Any]) -> None:
        session_id, _, name = key.partition("/")
        metadata = {_SESSION: session_id, _KEY: encoded(state)}
        try:
            self._store.edit_conversation(key, metadata=metadata)
        except NotFoundError as error:
            raise SessionException(
                f"{name.strip('/')} in session {session_id} does not exist"
            ) from error

    def _message(self, session_id: str, agent_id: str, message: SessionMessage) -> Message:
        return item_message(
            _KEY,
            asdict(message),
            described(_described, message.to_message()),
            id=_message_key(session_id, agent_id, message.message_id),
            conversation_id=_joined(session_id, agent_id),
            user_id=self._user_id,
        )


def _joined(*parts: str) -> str:
    """Return an id made of a session's and an agent's; both are without slashes."""
    for part, name in zip(parts, ("session_id", "agent_id"), strict=False):
        require_session_id(part, name)
        if "/" in part or "\\" in part:
            raise ValueError(f"{name}={part} | id cannot contain path separators")
    return "/".join(parts)


def _multi_agent_key(session_id: str, multi_agent_id: str) -> str:
    # No agent's id is empty.
    return _joined(session_id, multi_agent_id).replace("/", "//")


def _message_key(session_id: str, agent_id: str, message_id: object) -> str:
    if not isinstance(message_id, int):
        raise ValueError(f"message_id=<{message_id}> | message id must be an integer")
    return f"{_joined(session_id, agent_id)}/{message_id}"


def _session_message(message: Message) -> SessionMessage | None:
    values: dict[str, Any] = item_of(message, _KEY, {})
    return SessionMessage.from_dict(values) if "message_id" in values else None


def _described(message: Any) -> Described:
    blocks = [block for block in message.get("content") or [] if isinstance(block, dict)]
    tools = [str(block["toolUse"].get("name")) for block in blocks if "toolUse" in block]
    role = role_of(message.get("role")) or MessageRole.USER
    if blocks and all("toolResult" in block for block in blocks):
        role = MessageRole.TOOL
    return Described(role, "\n".join(map(_text, blocks)), tools)


def _text(block: dict[str, Any]) -> str:
    kind, value = next(iter(block.items()), ("", None))
    if isinstance(value, str):
        return value
    if kind == "toolUse" and isinstance(value, dict):
        return call_text(value.get("name"), value.get("input"))
    if kind == "toolResult" and isinstance(value, dict):
        return "\n".join(map(_text, value.get("content") or []))
    if kind == "json":
        return text_of(value)
    if kind == "reasoningContent" and isinstance(value, dict):
        return text_of(value.get("reasoningText"))
    return f"[{kind}]"
