"""Transcripts of the Claude Agent SDK: its own conformance suite, and what its texts ask for."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest
from claude_agent_sdk import fold_session_summary
from claude_agent_sdk.testing import run_session_store_conformance

from jazzmine import Message, MessageRole
from jazzmine.adapters.claude_agent_sdk import JazzmineSessionStore
from jazzmine.core import MessageStore
from jazzmine.sync import MessageStore as SyncMessageStore
from tests.adapters.claude_agent_sdk_program import KEY

SUBAGENT = {**KEY, "subpath": "subagents/agent-1"}


@pytest.fixture
def sessions(store: MessageStore) -> Any:
    return sessions_of(store)


def sessions_of(store: MessageStore | SyncMessageStore, user_id: str = "u1") -> Any:
    """Untyped, because tests append entries that the SDK's types do not know."""
    return JazzmineSessionStore(store, user_id=user_id, agent_id="a1")


def entries(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "user", "uuid": text, "message": {"content": text}} for text in texts]


async def test_the_sdks_own_suite_passes(store: MessageStore) -> None:
    users = count()

    await run_session_store_conformance(lambda: sessions_of(store, f"u{next(users)}"))


# Keys


async def test_keys_that_join_alike_are_different_keys(sessions: Any) -> None:
    keys = [
        {"project_key": "a", "session_id": "b/c"},
        {"project_key": "a/b", "session_id": "c"},
        {"project_key": "a", "session_id": "b", "subpath": "c"},
        {"project_key": "a%2Fb", "session_id": "c"},
        {"project_key": "a", "session_id": "b%2Fc"},
        {"project_key": "a", "session_id": "b", "subpath": "c/d"},
        {"project_key": "a", "session_id": "b/c", "subpath": "d"},
        {"project_key": "\ud800", "session_id": "c"},
    ]
    for number, key in enumerate(keys):
        await sessions.append(key, entries("a", str(number)))

    assert [await sessions.load(key) for key in keys] == [entries("a", str(n)) for n in range(8)]
    assert sorted(one["session_id"] for one in await sessions.list_sessions("a")) == [
        "b%2Fc",
        "b/c",
    ]
    assert sorted(await sessions.list_subkeys({"project_key": "a", "session_id": "b"})) == [
        "c",
        "c/d",
    ]


async def test_users_do_not_see_each_others_sessions(store: MessageStore) -> None:
    mine, other = sessions_of(store, "u1"), sessions_of(store, "u2")
    await mine.append(KEY, entries("a"))

    assert await other.load(KEY) is None
    assert await other.list_sessions("project") == []
    await other.delete(KEY)
    await other.append(KEY, entries("a"))

    assert await mine.load(KEY) == await other.load(KEY) == entries("a")


@pytest.mark.parametrize("name", ["project_key", "session_id", "subpath"])
@pytest.mark.parametrize("missing", [None, ""])
async def test_a_missing_part_of_a_key_is_a_value_error(
    sessions: Any, name: str, missing: Any
) -> None:
    with pytest.raises(ValueError, match=f"{name} is missing"):
        await sessions.append({**SUBAGENT, name: missing}, entries("a"))


# Entries that come again


async def test_an_entry_that_comes_again_is_kept_once(sessions: Any) -> None:
    await sessions.append(KEY, entries("a", "b"))
    await sessions.append(KEY, entries("a", "b"))
    await sessions.append(KEY, entries("b", "c", "c"))

    assert await sessions.load(KEY) == entries("a", "b", "c")


async def test_an_entry_without_an_id_is_always_added(sessions: Any) -> None:
    batch = [*entries("a"), {"type": "mode", "mode": "plan"}]

    for _ in range(3):
        await sessions.append(KEY, batch)

    assert await sessions.load(KEY) == [*batch, batch[1], batch[1]]


# Summaries


async def test_a_summary_is_folded_over_all_appends(sessions: Any) -> None:
    batches: list[list[Any]] = [
        [{"type": "user", "uuid": "1", "message": {"content": "Hello"}, "gitBranch": "main"}],
        [{"type": "custom-title", "customTitle": "A"}, {"type": "tag", "tag": "x"}],
        [{"type": "custom-title", "customTitle": "B"}, {"type": "tag", "tag": ""}],
    ]
    for batch in batches:
        await sessions.append(KEY, batch)
    await sessions.append(SUBAGENT, [{"type": "custom-title", "customTitle": "C"}])

    (summary,) = await sessions.list_session_summaries("project")

    expected = fold_session_summary(None, KEY, [one for batch in batches for one in batch])
    assert summary["data"] == expected["data"]
    (listed,) = await sessions.list_sessions("project")
    assert (listed["session_id"], listed["mtime"]) == ("session", summary["mtime"])


async def test_a_summary_has_what_is_appended_at_once(sessions: Any) -> None:
    titles = [[{"type": "custom-title", "customTitle": f"{n}", "uuid": f"{n}"}] for n in range(8)]
    await asyncio.gather(*(sessions.append(KEY, title) for title in titles))

    stored = await sessions.load(KEY)
    (summary,) = await sessions.list_session_summaries("project")
    assert len(stored) == 8
    assert summary["data"]["custom_title"] == stored[-1]["customTitle"]


async def test_an_entry_that_comes_again_does_not_change_the_summary(sessions: Any) -> None:
    first = [{"type": "custom-title", "customTitle": "A", "uuid": "1"}]
    await sessions.append(KEY, first)
    await sessions.append(KEY, [{"type": "custom-title", "customTitle": "B", "uuid": "2"}])

    await sessions.append(KEY, first)
    await sessions.append(KEY, [*first, *entries("c")])

    (summary,) = await sessions.list_session_summaries("project")
    assert summary["data"]["custom_title"] == "B"


@pytest.mark.parametrize("change", ["delete", "flag", "foreign"])
async def test_a_summary_survives_changes_of_the_newest_message(
    sessions: Any, store: MessageStore, change: str
) -> None:
    await sessions.append(KEY, [{"type": "custom-title", "customTitle": "A"}])
    await sessions.append(KEY, entries("b", "c"))
    (conversation,) = await store.get_conversations_by_user_id("u1")
    newest = (await store.get_messages_by_conversation_id(conversation.id))[-1]
    if change == "delete":
        await store.delete_message(newest.id)
    elif change == "flag":
        await store.flag_message(newest.id)
    else:
        foreign = Message(
            conversation_id=conversation.id,
            user_id="u1",
            role=MessageRole.USER,
            original_content="",
        )
        await store.append_messages(conversation.id, [foreign])

    await sessions.append(KEY, entries("d"))

    (summary,) = await sessions.list_session_summaries("project")
    assert summary["data"]["custom_title"] == "A"
    assert (await sessions.load(KEY))[-1:] == entries("d")


# Entries


@pytest.mark.parametrize("one", [entries("a")[0], "a"])
async def test_one_entry_instead_of_a_list_is_refused(sessions: Any, one: object) -> None:
    with pytest.raises(TypeError, match="entries must be a list"):
        await sessions.append(KEY, one)

    assert await sessions.load(KEY) is None


async def test_a_person_can_read_the_conversation(sessions: Any, store: MessageStore) -> None:
    use = {"type": "tool_use", "id": "t", "name": "Read", "input": {"path": "a.py"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "1"}]}
    await sessions.append(
        KEY,
        [
            {"type": "user", "message": {"role": "user", "content": "Look."}},
            {"type": "assistant", "message": {"content": [{"type": "text", "text": "So:"}, use]}},
            {"type": "user", "message": {"role": "user", "content": [result]}},
            {"type": "custom-title", "customTitle": "A title"},
            {"type": "mode"},
        ],
    )
    assert len(await sessions.load(KEY)) == 5
    (conversation,) = await store.get_conversations_by_user_id("u1")

    shown = await store.get_immediate_context(conversation.id, 10)

    assert [(one.role.value, one.original_content) for one in shown] == [
        ("user", "Look."),
        ("assistant", 'So:\nRead({"path":"a.py"})'),
        ("tool", "1"),
    ]
    assert shown[1].invoked_tools == ["Read"]
