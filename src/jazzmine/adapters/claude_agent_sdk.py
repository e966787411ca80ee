"""Sessions of the Claude Agent SDK (`claude-agent-sdk`) in a message store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias
from urllib.parse import quote, unquote
from uuid import UUID, uuid4, uuid5

from jazzmine._async.message_store.store import MessageStore as AsyncMessageStore
from jazzmine._sync.message_store.store import MessageStore
from jazzmine.adapters._calls import finished, require_session_id, require_several, retry_conflicts
from jazzmine.adapters._claude_runs import Run, blocks_of, is_prompt
from jazzmine.adapters._conversations import Conversations
from jazzmine.adapters._encoding import encoded
from jazzmine.adapters._items import Described, described, item_message, item_of, role_of, text_of
from jazzmine.adapters._recorder import remember
from jazzmine.adapters._versions import supported
from jazzmine.errors import ConflictError, IntegrityError
from jazzmine.records.log import ANY
from jazzmine.records.messages import Conversation, Message, MessageRole

with supported("claude-agent-sdk", "0.1.66", "1.0"):
    from claude_agent_sdk import fold_session_summary
    from claude_agent_sdk.types import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

__all__ = ["JazzmineSessionStore"]

_KEY = "claude_agent_sdk"
_IDS = UUID("2f4a1c0e-6f0b-4d0e-9f43-6a53f1c3a1d7")

# The entries without a message that a person wants to read; others are flagged, because most
# entries of a transcript are the program's own notes.
_SHOWN = ("system", "summary")

# A message to append, and its entry.
_Unsaved: TypeAlias = tuple[Message, SessionStoreEntry]


class JazzmineSessionStore:
    """Transcripts of one user's sessions; each transcript is a conversation.

    Implements `claude_agent_sdk.SessionStore` with its optional methods. A transcript of a subagent
    (a key with a `subpath`) is a conversation of its own. Keys of different users are different
    keys. It keeps nothing in memory, so any number of processes may use one session at once.

    Args:
        store: an open message store; with a sync one, calls run in worker threads.
        user_id: the user of the conversations; sessions of other users are not seen.
        agent_id: the agent of new conversations.
        record_runs: whether a trace of each run is stored with its transcript: the calls of
            models and tools, of which the entries say what they used and when. An untitled
            conversation then gets a title from the user's first message.

    Raises:
        ValueError: an id is missing.
        TypeError: an argument is of another type.
    """

    def __init__(
        self,
        store: AsyncMessageStore | MessageStore,
        *,
        user_id: str,
        agent_id: str,
        record_runs: bool = False,
    ) -> None:
        self._conversations = Conversations(store, user_id, agent_id)
        self._store, self._user_id = self._conversations.store, user_id
        self._record_runs = record_runs
        # The newest run of each transcript.
        self._runs: dict[str, Run] = {}

    async def append(self, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        """Append entries to a transcript, all of them or none.

        Those whose `uuid` the transcript has already are left out; entries without a `uuid` are
        always added. The session's summary changes in the same step.

        Raises:
            TypeError, ValueError: an entry cannot be stored, one is passed instead of a list, or
                an id in the key is missing.
        """
        require_several(entries, "entries")
        conversation_id = self._conversation_id(key)
        unsaved: dict[str, _Unsaved] = {}
        for entry in entries:
            message = self._message(conversation_id, entry)
            unsaved.setdefault(message.id, (message, entry))
        if unsaved:
            await finished(self._append(key, conversation_id, list(unsaved.values())))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries of a transcript in order, or None if there are none."""
        return await self._entries(self._conversation_id(key)) or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the ids of a project's sessions, and when each was last appended to, in ms."""
        return [
            {"session_id": session_id, "mtime": conversation.last_updated_at}
            for conversation, session_id in await self._below(project_key)
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries of a project's sessions, each as of its newest entry."""
        sessions = await self._below(project_key)
        found = [_summary(await self._newest(session.id), name) for session, name in sessions]
        return [summary for summary in found if summary is not None]

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript; a session's own one (no `subpath`) with those of its subagents."""

        async def delete() -> None:
            if key.get("subpath") is None:
                for conversation, _ in await self._below(key["project_key"], key["session_id"]):
                    await self._store.delete_conversation(conversation.id)
            await self._store.delete_conversation(self._conversation_id(key))

        await finished(delete())

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session's transcripts."""
        found = await self._below(key["project_key"], key["session_id"])
        return [subpath for _, subpath in found]

    async def _append(self, key: SessionKey, conversation_id: str, unsaved: list[_Unsaved]) -> None:
        recorded = self._runs_of(conversation_id, unsaved) if self._record_runs else []

        async def attempt() -> None:
            nonlocal unsaved
            messages = [message for message, _ in unsaved]
            expected: Any = ANY
            if messages and key.get("subpath") is None:
                messages[-1], expected = await self._summarized(key, conversation_id, unsaved)
            ids = {message.id for message in messages}
            runs = [
                (run, [message for message in of if message.id in ids])
                for run, of in recorded
                if run.has_calls
            ]
            try:
                await self._conversations.append(conversation_id, messages, expected, runs)
            except IntegrityError as error:
                # Some of the messages are stored already.
                found = await self._store.get_messages_by_ids(list(ids))
                stored = {message.id for message in found}
                unsaved = [pair for pair in unsaved if pair[0].id not in stored]
                for run, _ in recorded:
                    run.leave_out(stored)
                raise ConflictError(str(error)) from error

        await retry_conflicts(attempt)
        for run, _ in recorded:
            run.leave_out()

    def _runs_of(
        self, conversation_id: str, unsaved: Sequence[_Unsaved]
    ) -> list[tuple[Run, list[Message]]]:
        """Return the runs that entries are of, with the messages of each, in their order.

        A run begins with what the user says.
        """
        run = self._runs.pop(conversation_id, None)
        found: list[tuple[Run, list[Message]]] = []
        for message, entry in unsaved:
            if run is None or (is_prompt(entry) and not run.has(message)):
                run = Run(self._store, conversation_id, self._user_id, self._conversations.agent_id)
            if not found or found[-1][0] is not run:
                found.append((run, []))
            run.add(message, entry)
            found[-1][1].append(message)
        if run is not None:
            remember(self._runs, conversation_id, run)
        return found

    async def _summarized(
        self, key: SessionKey, conversation_id: str, unsaved: list[_Unsaved]
    ) -> tuple[Message, str | None]:
        """Return the last message with the new summary, and the id of the newest stored one."""
        newest = await self._newest(conversation_id)
        before = _summary(newest, key["session_id"])
        entries = [entry for _, entry in unsaved]
        if newest is not None and before is None:
            # The message with the summary was deleted, or another program stored the newest one.
            entries = [*await self._entries(conversation_id), *entries]
        summary = fold_session_summary(before, key, entries)
        last, entry = unsaved[-1]
        payload = encoded({"entry": entry, "summary": summary["data"]})
        message = last.model_copy(update={"metadata": {_KEY: payload}})
        return message, None if newest is None else newest.id

    async def _entries(self, conversation_id: str) -> list[Any]:
        stored = await self._store.get_messages_by_conversation_id(conversation_id)
        payloads = [item_of(message, _KEY, None) for message in stored]
        return [payload["entry"] for payload in payloads if payload is not None]

    async def _newest(self, conversation_id: str) -> Message | None:
        found = await self._store.get_messages_by_conversation_id(
            conversation_id, order="newest", limit=1
        )
        return found[0] if found else None

    async def _below(self, *parts: str) -> list[tuple[Conversation, str]]:
        """Return the conversations whose key has one part more than these, and that part."""
        prefix = _joined(_KEY, self._user_id, *parts, "")
        found = await self._store.get_conversations_by_user_id(self._user_id)
        return [
            (conversation, unquote(conversation.id[len(prefix) :], errors="surrogatepass"))
            for conversation in found
            if conversation.id.startswith(prefix) and "/" not in conversation.id[len(prefix) :]
        ]

    def _conversation_id(self, key: SessionKey) -> str:
        names = ["project_key", "session_id", *(["subpath"] if "subpath" in key else [])]
        parts = [require_session_id(key.get(name), name) for name in names]
        return _joined(_KEY, self._user_id, *parts)

    def _message(self, conversation_id: str, entry: SessionStoreEntry) -> Message:
        uuid = entry.get("uuid")
        return item_message(
            _KEY,
            {"entry": entry},
            described(_described, entry),
            id=str(uuid5(_IDS, _joined(conversation_id, uuid)) if uuid else uuid4()),
            conversation_id=conversation_id,
            user_id=self._user_id,
            is_flagged=not isinstance(entry.get("message"), dict)
            and entry.get("type") not in _SHOWN,
        )


def _joined(*parts: str) -> str:
    return "/".join(quote(part, safe="", errors="surrogatepass") for part in parts)


def _summary(newest: Message | None, session_id: str) -> SessionSummaryEntry | None:
    """Return the summary that was stored with a message, if any.

    Its `mtime` is older than that of the session if this is not the session's newest message, and
    the SDK then reads the entries.
    """
    payload: Any = None if newest is None else item_of(newest, _KEY, None)
    if newest is None or payload is None or "summary" not in payload:
        return None
    return {"session_id": session_id, "mtime": newest.timestamp, "data": payload["summary"]}


def _described(entry: Any) -> Described:
    kind, message = str(entry.get("type")), entry.get("message")
    if not isinstance(message, dict):
        named = (
            entry.get(name) for name in ("summary", "customTitle", "aiTitle", "tag", "content")
        )
        text = next((name for name in named if isinstance(name, str)), "")
        return Described(MessageRole.SYSTEM, f"[{kind}] {text}".rstrip())
    blocks = blocks_of(message)
    tools = [str(block.get("name")) for block in blocks if block.get("type") == "tool_use"]
    role = role_of(kind) or MessageRole.SYSTEM
    if blocks and all(block.get("type") == "tool_result" for block in blocks):
        role = MessageRole.TOOL
    return Described(role, text_of(message.get("content")), tools)
