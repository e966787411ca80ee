"""Any sequence of calls has the answers of Pydantic AI's own store."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError

from jazzmine.adapters.pydantic_ai import JazzmineConversationStore
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.scripted_pydantic_ai import asked, texts

NAMES = st.sampled_from(["c1", "c2", "c3"])
SCOPES = st.sampled_from([None, "", "u1", "u2"])
LIMITS = st.sampled_from([None, 0, 1, 2])
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("extend"), NAMES, SCOPES, st.integers(0, 2), LIMITS),
        st.tuples(st.just("rewrite"), NAMES, SCOPES, st.integers(0, 3), LIMITS),
        st.tuples(st.just("stale"), NAMES, SCOPES, st.integers(1, 2), LIMITS),
        st.tuples(st.just("branch"), NAMES, SCOPES, st.integers(0, 4), st.integers(0, 9)),
        st.tuples(st.just("fork"), NAMES, SCOPES, NAMES, st.integers(0, 9)),
        st.tuples(st.just("delete"), NAMES, SCOPES, st.none(), st.none()),
        st.tuples(st.just("list"), st.none(), SCOPES, st.none(), LIMITS),
    ),
    max_size=14,
)


class Caller:
    """Makes calls to one store, and names its ids, which are random, by their first occurrence."""

    def __init__(self, conversations: ConversationStore) -> None:
        self._store = conversations
        self._names: dict[str, object] = {}
        self._entries: list[str] = []
        self._old: dict[str, Conversation] = {}
        self._said = 0

    async def answer(self, call: tuple[Any, ...]) -> object:
        try:
            answer = await getattr(self, f"_{call[0]}")(*call[1:])
        except UserError as error:
            answer = (type(error), str(error).count("revision"))
        return answer, await self._everything()

    async def _extend(self, name: str, scope: str | None, count: int, limit: int | None) -> object:
        found = await self._store.load(name, limit=limit)
        return await self._save(found or Conversation(conversation_id=name), count, scope)

    async def _rewrite(self, name: str, scope: str | None, at: int, limit: int | None) -> object:
        found = await self._store.load(name, limit=limit)
        if found is None:
            return None
        del found.messages[at:]
        return await self._save(found, 1, scope)

    async def _stale(self, name: str, scope: str | None, count: int, limit: int | None) -> object:
        old = self._old.get(name) or Conversation(conversation_id=name)
        found = await self._store.load(name, limit=limit, scope=scope)
        if found is not None:
            self._old[name] = found
        return await self._save(old, count, scope)

    async def _save(self, conversation: Conversation, count: int, scope: str | None) -> object:
        for _ in range(count):
            self._said += 1
            conversation.messages.append(asked(str(self._said)))
        entries = await self._store.save(conversation, scope=scope)
        self._entries += [entry.id for entry in entries]
        self._see(entries)
        return [self._named(entry) for entry in entries]

    async def _branch(self, name: str, scope: str | None, at: int, entry: int) -> object:
        record = await self._store.read_record(name)
        expected = None if record is None else record.revision
        where: Any = (
            {"at": at}
            if entry > 5 or not self._entries
            else {"from_entry": await self._at(name, entry)}
        )
        found = await self._store.branch(name, expected_revision=expected, scope=scope, **where)
        return texts(found.messages)

    async def _fork(self, name: str, scope: str | None, new: str, entry: int) -> object:
        where: Any = {}
        if entry <= 5 and self._entries:
            where["from_entry"] = await self._at(name, entry)
        found = await self._store.fork(name, new_conversation_id=new, scope=scope, **where)
        return texts(found.messages)

    async def _delete(self, name: str, scope: str | None, *_: None) -> None:
        await self._store.delete(name, scope=scope)

    async def _list(self, _: None, scope: str | None, __: None, limit: int | None) -> object:
        found = await self._store.list_conversations(scope=scope, limit=limit)
        return [self._record(record) for record in found]

    async def _everything(self) -> object:
        loads = [await self._store.load_entries(name) for name in ("c1", "c2", "c3")]
        for found in loads:
            self._see(found or [])
        records = [await self._store.read_record(name) for name in ("c1", "c2", "c3")]
        for record in records:
            for tip in record.branches if record else ():
                self._see(await self._store.read_history(tip))
        return (
            [record and self._record(record) for record in records],
            [None if found is None else list(map(self._named, found)) for found in loads],
        )

    async def _at(self, name: str, index: int) -> str:
        """Return the id that an entry has in a conversation; a fork has a copy of it."""
        wanted = self._entries[index % len(self._entries)]
        record = await self._store.read_record(name)
        for tip in [] if record is None else [record.head_id, *record.branches]:
            for entry in await self._store.read_history(tip):
                if self._id(entry.id) == self._id(wanted):
                    return entry.id
        return wanted

    def _see(self, entries: list[ConversationEntry]) -> None:
        self._names |= {entry.id: texts([entry.message])[0] for entry in entries}

    def _id(self, given: str | None) -> object:
        """Return what an entry says, which no other one does."""
        return None if given is None else self._names[given]

    def _named(self, entry: ConversationEntry) -> object:
        return (self._id(entry.parent_id), self._id(entry.id))

    def _record(self, record: ConversationRecord) -> object:
        ids = [record.head_id, record.forked_at, *record.branches]
        return (record.conversation_id, record.scope, record.forked_from, list(map(self._id, ids)))


def extend(name: str, count: int) -> tuple[Any, ...]:
    return ("extend", name, None, count, None)


def fork(name: str, new: str, entry: int = 9) -> tuple[Any, ...]:
    return ("fork", name, None, new, entry)


def delete(name: str) -> tuple[Any, ...]:
    return ("delete", name, None, None, None)


# Fork, deleted, stored anew without a source.
ANOTHER_FORK = [extend("c1", 1), fork("c1", "c2"), delete("c2"), extend("c2", 0)]
# The fork is made anew from an earlier entry.
EARLIER_FORK = [
    extend("c1", 2), fork("c1", "c2"), delete("c2"), fork("c1", "c2", 0), delete("c1")
]  # fmt: skip
# The source is stored anew before its fork is deleted.
SOURCE_ANEW = [extend("c1", 1), fork("c1", "c2"), delete("c1"), extend("c1", 1), delete("c2")]
# Each of two conversations is a fork of the other.
BOTH_FORKS = [
    extend("c1", 1), fork("c1", "c2"), extend("c2", 1), delete("c1"), fork("c2", "c1"),
    extend("c1", 1), delete("c1"), delete("c2"),
]  # fmt: skip
# Both stay stored for a third one.
BOTH_FORKS_KEPT = [
    *BOTH_FORKS[:6], fork("c1", "c3"), delete("c1"), delete("c2"), delete("c3"),
]  # fmt: skip


@given(calls=CALLS)
@example(ANOTHER_FORK)
@example(EARLIER_FORK)
@example(SOURCE_ANEW)
@example(BOTH_FORKS)
@example(BOTH_FORKS_KEPT)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
def test_any_calls_have_the_answers_of_the_frameworks_own_store(
    sync_store: SyncMessageStore, calls: list[tuple[Any, ...]]
) -> None:
    asyncio.run(_compared(sync_store, calls))


async def _compared(sync_store: SyncMessageStore, calls: list[tuple[Any, ...]]) -> None:
    conversations = JazzmineConversationStore(sync_store, agent_id="a1", user_id="u1")
    for name in ("c1", "c2", "c3"):
        await conversations.delete(name)
    ours, theirs = Caller(conversations), Caller(InMemoryConversationStore())
    for call in calls:
        assert await ours.answer(call) == await theirs.answer(call), call
    for conversation in ("c1", "c2", "c3"):
        await conversations.delete(conversation)
        assert sync_store.get_messages_by_conversation_id(conversation) == [] or any(
            [await conversations.read_record(name) for name in ("c1", "c2", "c3")]
        )
    for conversation in ("c1", "c2", "c3"):
        assert sync_store.get_conversation_by_id(conversation) is None
