"""Conversations of Pydantic AI, as its in-memory store answers, and more."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai import BinaryContent, DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RunUsage

from jazzmine.adapters.pydantic_ai import JazzmineConversationStore
from jazzmine.core import MessageStore
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.processes import run_together
from tests.adapters.pydantic_ai_program import agent
from tests.behaviour.backends import Config

PROGRAM = "tests.adapters.pydantic_ai_program"


@pytest.fixture
def conversations(store: MessageStore) -> JazzmineConversationStore:
    return JazzmineConversationStore(store, agent_id="a1", user_id="u1")


def asked(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def answered(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def talk(name: str, *texts: str) -> Conversation:
    messages = [(answered if index % 2 else asked)(text) for index, text in enumerate(texts)]
    return Conversation(conversation_id=name, messages=list(messages))


def texts(messages: list[ModelMessage]) -> list[object]:
    return [getattr(message.parts[0], "content", None) for message in messages]


async def loaded(conversations: ConversationStore, name: str) -> list[object]:
    conversation = await conversations.load(name)
    assert conversation is not None
    return texts(conversation.messages)


# Saving and loading


async def test_what_was_not_saved_is_none(conversations: JazzmineConversationStore) -> None:
    assert await conversations.load("c1") is None
    assert await conversations.load_entries("c1") is None
    assert await conversations.read_record("c1") is None
    assert await conversations.read_history(None) == []
    assert await conversations.list_conversations() == []
    await conversations.delete("c1")


async def test_a_conversation_comes_back_as_it_was(
    conversations: JazzmineConversationStore,
) -> None:
    saved = talk("c1", "one", "two")
    saved.usage = RunUsage(requests=1, input_tokens=2**70, details={"cached": 3})
    saved.deferred_tool_requests = DeferredToolRequests(
        approvals=[ToolCallPart("pay", {"amount": 3}, tool_call_id="k")],
        metadata={"k": {"why": "large"}},
    )
    await conversations.save(saved, scope="u7")

    assert await conversations.load("c1") == saved


async def test_a_save_stores_new_messages_alone(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    conversation = talk("c1", "one", "two")
    first = await conversations.save(conversation)
    conversation.messages += [asked("three"), answered("four")]
    second = await conversations.save(conversation)

    stored = await store.get_messages_by_conversation_id("c1")
    assert [one.id for one in stored] == [entry.id for entry in first + second]
    assert await conversations.load_entries("c1") == first + second
    assert await conversations.save(conversation) == []
    assert await loaded(conversations, "c1") == ["one", "two", "three", "four"]


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 9])
async def test_a_limit_gives_the_newest_oldest_first(
    conversations: JazzmineConversationStore, limit: int
) -> None:
    all_texts = ["one", "two", "three", "four"]
    await conversations.save(talk("c1", *all_texts))

    conversation = await conversations.load("c1", limit=limit)

    assert conversation is not None
    assert texts(conversation.messages) == (all_texts[-limit:] if limit else [])


async def test_a_window_is_appended_to_the_whole(conversations: JazzmineConversationStore) -> None:
    await conversations.save(talk("c1", "one", "two", "three", "four"))
    window = await conversations.load("c1", limit=1)
    assert window is not None
    window.messages.append(asked("five"))
    await conversations.save(window)

    assert await loaded(conversations, "c1") == ["one", "two", "three", "four", "five"]


async def test_a_save_of_what_others_saved_since_is_a_conflict(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    await conversations.save(talk("c1", "one"))
    mine, other = await conversations.load("c1"), await conversations.load("c1")
    assert mine is not None
    assert other is not None
    other.messages.append(answered("two"))
    await conversations.save(other)
    mine.messages.append(answered("late"))

    with pytest.raises(ConversationConflict):
        await conversations.save(mine)
    with pytest.raises(ConversationConflict):
        await conversations.save(talk("c1", "new"))

    assert await loaded(conversations, "c1") == ["one", "two"]
    assert len(await store.get_messages_by_conversation_id("c1")) == 2


async def test_of_saves_at_once_one_succeeds(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    saves = (conversations.save(talk("c1", f"{n} 0", f"{n} 1")) for n in range(6))
    results = await asyncio.gather(*saves, return_exceptions=True)

    failed = [one for one in results if isinstance(one, BaseException)]
    assert [type(one) for one in failed] == [ConversationConflict] * 5
    assert len(await store.get_messages_by_conversation_id("c1")) == 2
    assert await conversations.load("c1") is not None


async def test_a_head_that_is_not_stored_is_a_conflict(
    conversations: JazzmineConversationStore,
) -> None:
    record = ConversationRecord(conversation_id="c1", head_id="nowhere")
    with pytest.raises(ConversationConflict):
        await conversations.write_record(record, expected_revision=None)

    assert await conversations.read_record("c1") is None


async def test_a_missing_entry_is_a_lookup_error(conversations: JazzmineConversationStore) -> None:
    with pytest.raises(LookupError):
        await conversations.read_entry("nowhere")
    with pytest.raises(LookupError):
        await conversations.read_history("nowhere")


async def test_an_entry_is_read_by_its_id(conversations: JazzmineConversationStore) -> None:
    entries = await conversations.save(talk("c1", "one", "two"))

    assert [await conversations.read_entry(entry.id) for entry in entries] == entries


# Branches and forks


async def test_a_branch_keeps_the_history_that_it_leaves(
    conversations: JazzmineConversationStore,
) -> None:
    first = await conversations.save(talk("c1", "one", "two", "three"))
    record = await conversations.read_record("c1")
    assert record is not None
    branched = await conversations.branch("c1", at=1, expected_revision=record.revision)
    branched.messages.append(answered("other"))
    await conversations.save(branched)

    assert await loaded(conversations, "c1") == ["one", "other"]
    record = await conversations.read_record("c1")
    assert record is not None
    assert record.branches == [first[-1].id]
    back = await conversations.branch(
        "c1", from_entry=first[-1].id, expected_revision=record.revision
    )
    assert texts(back.messages) == ["one", "two", "three"]


async def test_a_rewritten_history_branches_off(conversations: JazzmineConversationStore) -> None:
    entries = await conversations.save(talk("c1", "one", "two"))
    conversation = await conversations.load("c1")
    assert conversation is not None
    conversation.messages[1] = answered("better")
    await conversations.save(conversation)

    assert await loaded(conversations, "c1") == ["one", "better"]
    assert texts([one.message for one in await conversations.read_history(entries[1].id)]) == [
        "one",
        "two",
    ]


async def test_a_fork_shares_entries_and_outlives_its_source(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    entries = await conversations.save(talk("c1", "one", "two", "three"))
    fork = await conversations.fork("c1", at=2, new_conversation_id="c2")
    fork.messages.append(asked("mine"))
    await conversations.save(fork)

    assert (await conversations.load_entries("c2") or [])[:2] == entries[:2]
    await conversations.delete("c1")

    assert await conversations.load("c1") is None
    assert await loaded(conversations, "c2") == ["one", "two", "mine"]
    with pytest.raises(LookupError):
        await conversations.read_entry(entries[2].id)
    assert [one.conversation_id for one in await conversations.list_conversations()] == ["c2"]

    await conversations.delete("c2")
    assert await store.get_conversation_by_id("c1") is None
    assert await store.get_conversation_by_id("c2") is None


async def test_a_fork_of_a_fork_outlives_both(conversations: JazzmineConversationStore) -> None:
    await conversations.save(talk("c1", "one", "two"))
    second = await conversations.fork("c1", new_conversation_id="c2")
    second.messages.append(asked("three"))
    await conversations.save(second)
    await conversations.fork("c2", new_conversation_id="c3")

    await conversations.delete("c1")
    await conversations.delete("c2")

    assert await loaded(conversations, "c3") == ["one", "two", "three"]


async def test_a_source_stored_anew_does_not_break_its_fork(
    conversations: JazzmineConversationStore,
) -> None:
    await conversations.save(talk("c1", "one", "two"))
    await conversations.fork("c1", new_conversation_id="c2")
    await conversations.delete("c1")

    await conversations.save(talk("c1", "anew"), scope="u9")

    assert await loaded(conversations, "c1") == ["anew"]
    assert await loaded(conversations, "c2") == ["one", "two"]
    assert [one.scope for one in await conversations.list_conversations(scope="u9")] == ["u9"]


async def test_a_fork_to_a_stored_conversation_is_a_conflict(
    conversations: JazzmineConversationStore,
) -> None:
    await conversations.save(talk("c1", "one"))
    await conversations.save(talk("c2", "two"))
    with pytest.raises(ConversationConflict):
        await conversations.fork("c1", new_conversation_id="c2")

    assert await loaded(conversations, "c2") == ["two"]


async def test_a_deleted_conversation_leaves_nothing(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    (entry,) = await conversations.save(talk("c1", "secret"))
    conversation = await conversations.load("c1")
    await conversations.delete("c1")

    assert await store.get_conversation_by_id("c1") is None
    assert await store.get_message_by_id(entry.id) is None
    assert conversation is not None
    with pytest.raises(ConversationConflict):
        await conversations.save(conversation)
    with pytest.raises(ConversationConflict):
        await conversations.delete_record("c1", expected_revision="r")
    await conversations.save(talk("c1", "anew"))
    assert await loaded(conversations, "c1") == ["anew"]


async def test_deletions_beside_saves_lose_no_save(
    conversations: JazzmineConversationStore,
) -> None:
    async def add(number: int) -> None:
        while True:
            conversation = await conversations.load("c1") or Conversation(conversation_id="c1")
            conversation.messages.append(asked(str(number)))
            try:
                await conversations.save(conversation)
            except ConversationConflict:
                continue
            return

    for number in range(10):
        await asyncio.gather(add(number), conversations.delete("c1"), conversations.delete("c1"))
        found = await conversations.load("c1")
        # It was saved before the deletions, or after them: then it is all that there is.
        assert found is None or texts(found.messages)[-1] == str(number)
        await add(100)
        assert (await loaded(conversations, "c1"))[-1] == "100"


async def test_a_deletion_beside_one_that_is_followed_by_a_save_is_no_error(
    conversations: JazzmineConversationStore, store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await conversations.save(talk("c1", "one"))
    append, stored = store.append_messages, await store.get_conversation_by_id("c1")
    assert stored is not None

    async def append_after_deletion(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.undo()
        await store.delete_conversation("c1")
        try:
            return await append(*args, **kwargs)
        finally:
            await store.store_conversation(stored)

    monkeypatch.setattr(store, "append_messages", append_after_deletion)

    await conversations.delete("c1")

    assert await conversations.load("c1") is None


# Scopes and listing


async def test_records_are_listed_by_microseconds(
    conversations: JazzmineConversationStore,
) -> None:
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    for name, offset in (("c1", 1), ("c2", 3), ("c3", 2)):
        record = ConversationRecord(
            conversation_id=name, head_id=None, updated_at=now + timedelta(microseconds=offset)
        )
        await conversations.write_record(record, expected_revision=None)

    listed = await conversations.list_conversations()

    assert [one.conversation_id for one in listed] == ["c2", "c3", "c1"]
    assert listed[0].updated_at == now + timedelta(microseconds=3)


async def test_the_scope_is_applied_before_the_limit(
    conversations: JazzmineConversationStore,
) -> None:
    for number in range(40):
        scope = (None, "", "u1", "u2")[number % 4]
        await conversations.save(talk(f"c{number}", "one"), scope=scope)

    async def listed(scope: str | None, limit: int | None = None) -> list[str]:
        found = await conversations.list_conversations(scope=scope, limit=limit)
        return [one.conversation_id for one in found]

    assert await listed(None) == [f"c{number}" for number in range(39, -1, -1)]
    assert await listed(None, 3) == ["c39", "c38", "c37"]
    assert await listed("", 2) == ["c37", "c33"]
    assert await listed("u1", 2) == ["c38", "c34"]
    assert await listed("u2", 0) == []
    assert await listed("u3") == []


async def test_a_conversation_of_another_scope_is_as_if_it_were_missing(
    conversations: JazzmineConversationStore,
) -> None:
    await conversations.save(talk("c1", "one"), scope="u1")

    assert await conversations.load("c1", scope="u2") is None
    assert await conversations.load("c1", scope="") is None
    await conversations.delete("c1", scope="u2")
    assert await loaded(conversations, "c1") == ["one"]


async def test_conversations_of_other_agents_are_not_listed(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    await conversations.save(talk("c1", "one"), scope="u1")
    other = JazzmineConversationStore(store, agent_id="a2")

    assert await other.list_conversations() == []
    assert await other.list_conversations(scope="u1") == []


async def test_a_scope_is_the_user(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    await conversations.save(talk("c1", "one"), scope="u7")
    await conversations.save(talk("c2", "two"))

    erased = await store.erase_user("u7")

    assert (erased.conversations, erased.messages) == (1, 1)
    assert await conversations.load("c1") is None
    assert await loaded(conversations, "c2") == ["two"]


async def test_a_conversation_without_a_user_is_a_value_error(store: MessageStore) -> None:
    with pytest.raises(ValueError, match="missing"):
        await JazzmineConversationStore(store, agent_id="a1").save(talk("c1", "one"))
    with pytest.raises(ValueError, match="agent_id is missing"):
        JazzmineConversationStore(store, agent_id="")
    with pytest.raises(ValueError, match="conversation_id is missing"):
        await JazzmineConversationStore(store, agent_id="a1").load("")


# What stands in the store


async def test_a_person_can_read_the_conversation(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    picture = BinaryContent(b"\x00\xff", media_type="application/pdf")
    messages: list[ModelMessage] = [
        ModelRequest(parts=[SystemPromptPart("Be kind.")]),
        ModelRequest(parts=[SystemPromptPart("Short."), UserPromptPart(["Look:", picture])]),
        ModelResponse(
            parts=[TextPart("Wait."), ToolCallPart("weather", {"city": "X"}, tool_call_id="k")]
        ),
        ModelRequest(parts=[ToolReturnPart("weather", {"sky": "rain"}, tool_call_id="k")]),
        ModelRequest(parts=[ToolReturnPart("weather", "Again.", tool_call_id="k")]),
        ModelResponse(parts=[ThinkingPart("Hm."), TextPart("Rain.")]),
    ]
    conversation = Conversation(conversation_id="c1", messages=messages)
    await conversations.save(conversation)

    shown = await store.get_immediate_context("c1", 10)

    assert [one.role.value for one in shown] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert [one.original_content.splitlines()[0] for one in shown] == [
        "Be kind.",
        "Look:",
        "Wait.",
        '{"sky":"rain"}',
        "Again.",
        "Hm.",
    ]
    assert shown[2].original_content == 'Wait.\nweather({"city":"X"})'
    assert shown[2].invoked_tools == ["weather"]
    again = await conversations.load("c1")
    assert again is not None
    assert again.messages == messages


async def test_a_flagged_message_hides_no_revision(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    conversation = talk("c1", "one", "two")
    first = await conversations.save(conversation)
    conversation.messages.append(asked("three"))
    second = await conversations.save(conversation)
    for entry in (*first, *second):
        await store.flag_message(entry.id)

    conversation.messages.append(answered("four"))
    await conversations.save(conversation)

    assert await loaded(conversations, "c1") == ["one", "two", "three", "four"]


async def test_messages_of_others_hide_no_revision(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    conversation = talk("c1", "one", "two")
    await conversations.save(conversation)
    (note,) = await store.get_immediate_context("c1", 1)
    await store.append_messages(
        "c1", [note.model_copy(update={"id": "note", "metadata": {}, "original_content": "Seen."})]
    )

    conversation.messages.append(asked("three"))
    await conversations.save(conversation)

    assert await loaded(conversations, "c1") == ["one", "two", "three"]


async def test_popped_messages_take_their_revision_along(
    conversations: JazzmineConversationStore, store: MessageStore
) -> None:
    conversation = talk("c1", "one", "two")
    await conversations.save(conversation)
    conversation.messages += [asked("three"), answered("four")]
    await conversations.save(conversation)

    await store.pop_message("c1")

    assert await loaded(conversations, "c1") == ["one", "two"]


def test_a_store_is_used_from_several_loops(sync_store: SyncMessageStore) -> None:
    conversations = JazzmineConversationStore(sync_store, agent_id="a1", user_id="u1")
    asyncio.run(_save(conversations, talk("c1", "one")))

    assert asyncio.run(loaded(conversations, "c1")) == ["one"]


async def _save(conversations: ConversationStore, conversation: Conversation) -> None:
    await conversations.save(conversation)


# Lossless: what the framework's own serializer keeps

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
all_messages = st.lists(
    st.one_of(
        st.text().map(asked),
        st.text().map(answered),
        st.binary().map(
            lambda data: ModelRequest(
                parts=[UserPromptPart(["\x00", BinaryContent(data, media_type="application/pdf")])]
            )
        ),
        st.tuples(st.text(), st.dictionaries(st.text(), json_values, max_size=3)).map(
            lambda given: ModelResponse(parts=[ToolCallPart(given[0], given[1])])
        ),
        json_values.map(
            lambda value: ModelRequest(parts=[ToolReturnPart("t", value, tool_call_id="k")])
        ),
    ),
    max_size=4,
)


@given(messages=all_messages)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_messages_come_back_equal(sync_store: SyncMessageStore, messages: list[Any]) -> None:
    conversations = JazzmineConversationStore(sync_store, agent_id="a1", user_id="u1")
    conversation = Conversation(messages=messages)

    async def saved_and_loaded() -> Conversation | None:
        await conversations.save(conversation)
        return await conversations.load(conversation.conversation_id)

    assert asyncio.run(saved_and_loaded()) == conversation


async def test_a_large_message_comes_back_equal(conversations: JazzmineConversationStore) -> None:
    await conversations.save(talk("c1", "x" * 1_000_000))

    assert await loaded(conversations, "c1") == ["x" * 1_000_000]


# Any sequence of calls: the same answers as the framework's own store

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
        self._names: dict[str, int] = {}
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
        return [self._named(entry) for entry in entries]

    async def _branch(self, name: str, scope: str | None, at: int, entry: int) -> object:
        record = await self._store.read_record(name)
        expected = None if record is None else record.revision
        where: Any = (
            {"at": at} if entry > 5 or not self._entries else {"from_entry": self._at(entry)}
        )
        found = await self._store.branch(name, expected_revision=expected, scope=scope, **where)
        return texts(found.messages)

    async def _fork(self, name: str, scope: str | None, new: str, entry: int) -> object:
        where: Any = {} if entry > 5 or not self._entries else {"from_entry": self._at(entry)}
        found = await self._store.fork(name, new_conversation_id=new, scope=scope, **where)
        return texts(found.messages)

    async def _delete(self, name: str, scope: str | None, *_: None) -> None:
        await self._store.delete(name, scope=scope)

    async def _list(self, _: None, scope: str | None, __: None, limit: int | None) -> object:
        found = await self._store.list_conversations(scope=scope, limit=limit)
        return [self._record(record) for record in found]

    async def _everything(self) -> object:
        records = [await self._store.read_record(name) for name in ("c1", "c2", "c3")]
        loads = [await self._store.load_entries(name) for name in ("c1", "c2", "c3")]
        return (
            [record and self._record(record) for record in records],
            [None if found is None else list(map(self._named, found)) for found in loads],
            [await self._read(entry_id) for entry_id in self._entries],
        )

    async def _read(self, entry_id: str) -> object:
        try:
            return self._named(await self._store.read_entry(entry_id))
        except LookupError:
            return "missing"

    def _at(self, index: int) -> str:
        return self._entries[index % len(self._entries)]

    def _id(self, given: str | None) -> int | None:
        return None if given is None else self._names.setdefault(given, len(self._names))

    def _named(self, entry: ConversationEntry) -> object:
        return (self._id(entry.parent_id), self._id(entry.id), texts([entry.message]))

    def _record(self, record: ConversationRecord) -> object:
        ids = [record.head_id, record.forked_at, *record.branches]
        return (record.conversation_id, record.scope, record.forked_from, list(map(self._id, ids)))


@given(calls=CALLS)
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


# The framework's own loop, and several processes


async def test_an_agent_remembers_its_turns(conversations: JazzmineConversationStore) -> None:
    guide = agent()
    for question in ("Rain?", "And now?"):
        conversation = await conversations.load("c1") or Conversation(conversation_id="c1")
        result = await guide.run(question, conversation=conversation)
        assert result.output == "It rains."
        await conversations.save(result)

    saved = await conversations.load("c1")
    assert saved is not None
    assert len(saved.messages) == 8
    assert saved.usage.requests == 4
    assert saved.usage.tool_calls == 2


def test_a_second_process_goes_on(shared_config: Config) -> None:
    run_together(PROGRAM, shared_config, ("turn", "Rain?"))
    (printed,) = run_together(PROGRAM, shared_config, ("turn", "And now?"))

    assert printed.count('"tool-call"') == 2
    assert printed.index("Rain?") < printed.index("It rains.") < printed.index("And now?")


def test_pairs_of_four_processes_stay_together(shared_config: Config) -> None:
    run_together(PROGRAM, shared_config, *(("add", name, "50") for name in "abcd"))
    with SyncMessageStore.initialize(shared_config) as store:
        conversations = JazzmineConversationStore(store, agent_id="a1", user_id="u1")
        added = [str(text) for text in asyncio.run(loaded(conversations, "c1"))]

    assert len(set(added)) == len(added) == 400
    assert [one[:-2] for one in added[::2]] == [one[:-2] for one in added[1::2]]
