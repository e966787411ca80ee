"""Sessions and memory of Google's Agent Development Kit (`google-adk`) in a message store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from pydantic_core import to_jsonable_python

from jazzmine._async.long_term_memory.store import LongTermMemoryStore as AsyncItems
from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine._sync.long_term_memory.store import LongTermMemoryStore
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.adapters._calls import as_async, finished, retry_conflicts
from jazzmine.adapters._conversations import append_with_traces, newest_shown
from jazzmine.adapters._encoding import decoded, encoded
from jazzmine.adapters._versions import supported
from jazzmine.errors import ConflictError, IntegrityError, NotFoundError
from jazzmine.records.log import ANY
from jazzmine.records.messages import Conversation, Message

with supported("google-adk", "2.13.0", "3.0"):
    from google.adk.errors._stale_session_error import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events.event import Event
    from google.adk.sessions.base_session_service import (
        BaseSessionService,
        GetSessionConfig,
        ListSessionsResponse,
    )
    from google.adk.sessions.session import Session
    from google.adk.sessions.state import State

    from jazzmine.adapters._google_adk_events import (
        conversation_id_of,
        event_delta,
        event_message,
        place_of,
        visible_events,
    )
    from jazzmine.adapters._google_adk_memory import JazzmineMemoryService
    from jazzmine.adapters._google_adk_plugin import JazzmineTracePlugin
    from jazzmine.adapters._google_adk_state import (
        SESSION_KEY,
        SharedState,
        session_cause,
        split_state,
    )

__all__ = ["JazzmineMemoryService", "JazzmineSessionService", "JazzmineTracePlugin"]

# Keys in the metadata of a session's conversation.
_APP, _STATE = "google_adk_app", "google_adk_state"

# How many events may follow those whose state stands in the conversation.
_MAX_BEHIND = 50


class JazzmineSessionService(BaseSessionService):
    """Sessions whose events are the messages of one conversation each.

    Implements `google.adk.sessions.BaseSessionService`. The conversation of a session has the id
    `APP/USER/SESSION`, and its app as its agent. The state of a session is what its events made of
    the one that it began with, so that an event and its state take effect at once; that of a user
    and of an app is in the long-term memory. It keeps nothing in memory but the traces of runs, so
    any number of workers, in any processes, may use one session at once.

    Args:
        store: an open message store; with a sync one, calls run in worker threads.
        items: an open long-term memory, for the state of users and apps.

    Raises:
        TypeError: an argument is of another type.
    """

    def __init__(
        self,
        store: AsyncMessageStore | MessageStore,
        items: AsyncItems | LongTermMemoryStore,
    ) -> None:
        self._store: AsyncMessageStore = as_async(store)
        item_stores = (AsyncItems, LongTermMemoryStore)
        self._shared = SharedState(self._store, as_async(items, item_stores, "items"))
        self._plugin = JazzmineTracePlugin(self._store)

    def recorder(self) -> JazzmineTracePlugin:
        """Return the plugin for runners that stores the trace of each run beside its events."""
        return self._plugin

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Store a new session, and return it.

        Args:
            app_name: the app.
            user_id: the user.
            state: the state that it begins with; that of the user and of the app is changed too.
            session_id: the id; a new one by default. It is unique for an app and a user, and
                spaces around it do not count, here and in the other methods.

        Raises:
            AlreadyExistsError: there is such a session.
            ValueError: the state is nested too deeply, or holds bytes that are no text.
        """
        session_id = (session_id or "").strip() or str(uuid4())
        conversation_id = conversation_id_of(app_name, user_id, session_id)
        # As ADK's own services keep it: models become objects, and bytes text.
        own, changes = split_state(to_jsonable_python(state or {}, serialize_unknown=True))
        # The token tells a repeated call of the store from another caller's session.
        begun = {"token": str(uuid4()), "state": own}
        conversation = Conversation(
            id=conversation_id,
            user_id=user_id,
            agent_id=app_name,
            metadata={_APP: app_name, SESSION_KEY: encoded(begun)},
        )
        if not await finished(self._create(conversation, changes)):
            raise AlreadyExistsError(f"Session with id {session_id} already exists.")
        shared = await self._shared.read(app_name, user_id)
        return _session(conversation, own, shared, None)

    async def _create(self, conversation: Conversation, changes: dict[str, Any]) -> bool:
        """Store the conversation of a session with its changes, unless there is such a session."""
        cause = session_cause(conversation)
        place = (conversation.agent_id, conversation.user_id)
        if changes:
            if await self._store.get_conversation_by_id(conversation.id) is not None:
                return False
            await self._shared.change(*place, changes, cause)
        stored = await self._store.get_or_create_conversation(conversation)
        if stored.metadata.get(SESSION_KEY) != conversation.metadata[SESSION_KEY]:
            return False
        if changes:
            await self._shared.settle(*place, cause)
        return True

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session, or None.

        Args:
            app_name: the app.
            user_id: the user.
            session_id: the id.
            config: which of its events. The newest ones do not begin with the answers to calls
                that are left out, because models refuse these.
        """
        conversation_id = conversation_id_of(app_name, user_id, session_id)
        count = None if config is None else config.num_recent_events
        conversation, newest = await asyncio.gather(
            self._store.get_conversation_by_id(conversation_id),
            self._store.get_messages_by_conversation_id(conversation_id)
            if count is None
            else newest_shown(self._store, conversation_id, count),
        )
        if conversation is None or SESSION_KEY not in conversation.metadata:
            return None
        state, changes = await self._changes(conversation, newest if count is None else None)
        known = {message.id for message in changes}
        messages = [*(message for message in newest if message.id not in known), *changes]
        for message in changes:
            state.update(split_state(event_delta(message))[0])
        if len(changes) > _MAX_BEHIND:
            kept = {"token": _token_of(conversation), "state": state, "after": messages[-1].id}
            await self._keep_state(conversation, kept)
        # Read last, so that no event is returned without its state.
        shared = await self._shared.read(app_name, user_id)
        session = _session(conversation, state, shared, messages[-1].id if messages else None)
        session.events = _chosen(messages, config)
        return session

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return the sessions of a user, or of all users; those last that were changed last.

        They have no events, and the state that they had some events ago; `get_session` returns the
        newest.
        """
        where = {_APP: app_name}
        if user_id is None:
            found = await self._store.get_conversations_by_agent_id(app_name, where=where)
        else:
            found = await self._store.get_conversations_by_user_id(user_id, where=where)
        users = [place_of(conversation)[1] for conversation in found]
        shared = await self._shared.read_all(app_name, sorted(set(users)))
        sessions = [
            _session(conversation, _kept_state(conversation)[0], shared[user], None)
            for conversation, user in zip(found, users, strict=True)
        ]
        return ListSessionsResponse(sessions=sessions[::-1])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session with its events; the state of the user and of the app stays."""
        conversation_id = conversation_id_of(app_name, user_id, session_id)
        await finished(self._store.delete_conversation(conversation_id))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user, with keys that have no prefix."""
        shared = await self._shared.read(app_name, user_id)
        return {
            key.removeprefix(State.USER_PREFIX): value
            for key, value in shared.items()
            if key.startswith(State.USER_PREFIX)
        }

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event to a session, also if other writers have appended meanwhile.

        The event and its changes of state take effect at once. Temporary state is not stored, nor
        are partial events. An event that is stored already is not stored again.

        Args:
            session: gets the event and its state as well, but not those of other writers.
            event: the event.

        Raises:
            SessionNotFoundError: the session is not stored; it is a `ValueError`.
            StaleSessionError: it was deleted, and another one has its id; it is a `ValueError`.
            ValueError: JSON has no form for a value of the event.
        """
        if not event.partial:
            await finished(self._append(session, event))
        return await super().append_event(session, event)

    async def _append(self, session: Session, event: Event) -> None:
        place = (session.app_name, session.user_id, session.id)
        conversation_id = conversation_id_of(*place)
        message = event_message(event, conversation_id, session.user_id)
        changes = split_state(event_delta(message))[1]
        cause = ("message", message.id)
        token, last = _marker_of(session)
        if changes or token is None or last is None:
            await self._require(conversation_id, token, session.id)
        if changes:
            await self._shared.change(*place[:2], changes, cause)
        run = self._plugin.run_of(conversation_id, event.invocation_id)
        runs = [] if run is None else [(run, [message])]
        if run is not None:
            for call in event.get_function_calls():
                run.ask_tool_call(call.id or "", call.name or "", call.args)
            for answer in event.get_function_responses():
                run.answer_tool_call(answer.id or "", answer.response)

        async def attempt() -> Sequence[Message]:
            nonlocal last
            try:
                return await append_with_traces(
                    self._store, conversation_id, [message], runs, last or ANY
                )
            except (ConflictError, IntegrityError) as error:
                await self._require(conversation_id, token, session.id)
                last = error.newest_id if isinstance(error, ConflictError) else last
                raise

        [stored] = await retry_conflicts(attempt)
        if changes:
            await self._shared.settle(*place[:2], cause)
        session.last_update_time = max(session.last_update_time, stored.timestamp / 1000)
        if token is not None:
            session._storage_update_marker = encoded([token, stored.id])

    async def _require(self, conversation_id: str, token: str | None, session_id: str) -> None:
        """Raise an error unless a session is stored, and the one of a token, if that is known."""
        conversation = await self._store.get_conversation_by_id(conversation_id)
        if conversation is None:
            raise SessionNotFoundError(f"Session {session_id} not found.")
        if token is not None and token != _token_of(conversation):
            raise StaleSessionError(
                "The session was deleted, and another one has its id: get it again."
            )

    async def _changes(
        self, conversation: Conversation, messages: Sequence[Message] | None
    ) -> tuple[dict[str, Any], Sequence[Message]]:
        """Return the state that is kept, and the messages after it, of all if these are known."""
        state, after = _kept_state(conversation)
        read = self._store.get_messages_by_conversation_id
        if messages is None:
            with suppress(NotFoundError):
                return state, await read(conversation.id, after=after)
            messages = await read(conversation.id)
        ids = [message.id for message in messages]
        if after in ids:
            return state, messages[ids.index(after) + 1 :]
        if after is not None:  # the message was deleted, so the state that is kept never was
            await self._keep_state(conversation, None)
        return decoded(conversation.metadata[SESSION_KEY])["state"], messages

    async def _keep_state(self, conversation: Conversation, kept: dict[str, Any] | None) -> None:
        metadata = {_STATE: None if kept is None else encoded(kept)}
        with suppress(NotFoundError):
            await finished(self._store.edit_conversation(conversation.id, metadata=metadata))


def _kept_state(conversation: Conversation) -> tuple[dict[str, Any], str | None]:
    """Return the state that a session had some events ago, and the message of the last of these."""
    begun = decoded(conversation.metadata[SESSION_KEY])
    kept = decoded(conversation.metadata.get(_STATE, "{}"))
    if kept.get("token") == begun["token"]:
        return kept["state"], kept["after"]
    return begun["state"], None


def _session(
    conversation: Conversation, own: dict[str, Any], shared: dict[str, Any], last: str | None
) -> Session:
    """Return a session with a state; the last of its messages that is read may be None."""
    app_name, user_id, session_id = place_of(conversation)
    session = Session(
        id=session_id,
        app_name=app_name,
        user_id=user_id,
        state={**own, **shared},
        last_update_time=conversation.last_updated_at / 1000,
    )
    session._storage_update_marker = encoded([_token_of(conversation), last])
    return session


def _token_of(conversation: Conversation) -> str | None:
    """Return what tells a session from another one that had its id before it was deleted."""
    text = conversation.metadata.get(SESSION_KEY)
    return decoded(text)["token"] if isinstance(text, str) else None


def _marker_of(session: Session) -> tuple[str | None, str | None]:
    """Return the token and the last message of a session that this service has returned."""
    marker = session._storage_update_marker
    token, last = (None, None) if marker is None else decoded(marker)
    return token, last


def _chosen(messages: Sequence[Message], config: GetSessionConfig | None) -> list[Event]:
    """Return the events of messages that a config asks for; flagged ones are left out."""
    count = None if config is None else config.num_recent_events
    shown = [message for message in messages if not message.is_flagged]
    if count is not None:
        # What is cut off takes the other halves of its pairs along, too.
        shown = shown[max(len(shown) - count, 0) :]
        messages = shown
    events = visible_events(messages)
    if config is not None and config.after_timestamp is not None:
        events = [event for event in events if event.timestamp >= config.after_timestamp]
    return events
