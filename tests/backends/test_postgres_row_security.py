"""The policies of the guide to row-level security, with a role that has only what it grants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from jazzmine import IntegrityError, MemoryItem, TraceFilter
from jazzmine.sync.long_term_memory import LongTermMemoryStore
from jazzmine.sync.message_store import MessageStore
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.behaviour.samples import conversation, ids, message, trace
from tests.behaviour.scope_samples import ABOUT, ABSENT, CONVERSATIONS, MESSAGES, OTHERS, TRACES
from tests.servers import postgres

NEW_SCHEMA = True  # the fixture `schema`

GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/row-security.md"
WORD = "open-sesame"


@pytest.fixture
def whole(schema: str) -> Iterator[MessageStore]:
    """The administrator's store, with records of two users in each other's conversations."""
    config = {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema}
    LongTermMemoryStore.initialize(config).close()
    WorkingMemoryStore.initialize(config).close()
    with MessageStore.initialize({**config, "search": True}) as store:
        for record in CONVERSATIONS:
            store.store_conversation(record)
        store.store_messages(MESSAGES)
        for of_turn in TRACES:
            store.store_turn_trace(of_turn)
        yield store


@pytest.fixture
def role(
    admin: psycopg.Connection[tuple[Any, ...]], schema: str, whole: MessageStore
) -> Iterator[str]:
    """A role with the rights and the policies of the guide."""
    name = f"jazzmine_test_{uuid4().hex[:8]}"
    admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{WORD}'".encode())
    for statements in re.findall(r"```sql\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL):
        text = statements.replace("chat.", f'"{schema}".').replace(
            "SCHEMA chat", f"SCHEMA {schema}"
        )
        admin.execute(re.sub(r"\bweb\b", name, text).encode())
    yield name
    admin.execute(f"DROP OWNED BY {name} CASCADE".encode())
    admin.execute(f"DROP ROLE {name}".encode())


def config_of(role: str, schema: str, user_id: str = "") -> dict[str, object]:
    dsn = postgres.changed(postgres.dsn(), user=role, password=WORD)
    if user_id:
        dsn = postgres.changed(dsn, options=f"-c jazzmine.user_id={user_id}")
    return {"storage": "postgres", "dsn": dsn, "schema": schema, "pool_min": 1, "pool_max": 2}


def everything(store: MessageStore) -> list[Any]:
    owners = store.get_conversations()
    lists = [store.get_messages_by_conversation_id(one.id) for one in owners]
    return [owners, lists, store.find_turn_traces(TraceFilter())]


def test_a_user_sees_and_changes_what_is_in_the_users_conversations(schema: str, role: str) -> None:
    with MessageStore.initialize(config_of(role, schema, "u1")) as store:
        assert ids(store.get_conversations()) == ["c1"]
        assert ids(store.find_turn_traces(TraceFilter())) == ["t1"]
        assert store.get_message_by_id("m4") is None
        store.store_turn(
            conversation=conversation("c3"),
            messages=[message("m5", conversation_id="c3")],
            trace=trace("m5", conversation_id="c3"),
        )
        store.append_messages("c1", [message("m6")])
        assert store.edit_conversation("c1", title="mine").title == "mine"
        assert len(store.fork_conversation("c1", conversation("c4"))) == 3
        popped = store.pop_message("c1")
        assert popped is not None
        assert popped.id == "m6"
        assert store.erase_user("u1").conversations == 3


@pytest.mark.parametrize("is_scoped", [False, True])
def test_nothing_of_another_user_is_changed(
    whole: MessageStore, schema: str, role: str, is_scoped: bool
) -> None:
    before = everything(whole)
    with MessageStore.initialize(config_of(role, schema, "u1")) as store:
        own = store.scoped(user_id="u1") if is_scoped else store
        for name, call in ABOUT.items():
            outcomes = []
            for given in (ABSENT, *OTHERS):
                try:
                    outcomes.append(repr(call(own, given)))
                except Exception as error:
                    outcomes.append(type(error).__name__)

            if not name.startswith("count_messages"):  # it counts 0 for any id
                assert "c2" not in str(outcomes[1:]).replace("conversation_id='c2'", ""), name
            if is_scoped and not name.startswith("count_messages"):
                assert len(set(outcomes)) == 1, name
    assert everything(whole) == before


def test_a_strangers_id_cannot_be_stored(whole: MessageStore, schema: str, role: str) -> None:
    whole.store_message(message("m5", conversation_id="c2"))
    before = everything(whole)
    with MessageStore.initialize(config_of(role, schema, "u1")) as store:
        for call in (
            lambda: store.store_conversation(conversation("c2")),
            lambda: store.store_conversation(conversation("c2", user_id="u2")),
            lambda: store.store_conversation(conversation("c5", user_id="u2")),
            lambda: store.store_message(message("m3")),
            lambda: store.append_messages("c1", [message("m3")]),
            lambda: store.store_messages([message("new"), message("m3")]),
            lambda: store.store_turn_trace(trace("m2", id="t3")),
            lambda: store.store_turn_trace(trace("m5")),
        ):
            with pytest.raises(IntegrityError) as caught:
                call()
            assert "u2" not in str(caught.value)
        own = store.scoped(user_id="u1")
        for view in (own, store):
            with pytest.raises(IntegrityError):
                view.store_conversation(conversation("c2"))
            with pytest.raises(IntegrityError):
                view.store_turn(conversation=conversation("c2"))
            with pytest.raises(IntegrityError):
                view.get_or_create_conversation(conversation("c2"))
    assert everything(whole) == before


def test_without_the_setting_there_is_nothing(schema: str, role: str) -> None:
    with MessageStore.initialize(config_of(role, schema)) as store:
        assert everything(store) == [[], [], []]


def test_items_are_hidden(schema: str, role: str) -> None:
    item = MemoryItem(namespace=("facts",), key="k", value={}, user_id="u2")
    with (
        LongTermMemoryStore.initialize(config_of(role, schema, "u2")) as others,
        LongTermMemoryStore.initialize(config_of(role, schema, "u1")) as store,
    ):
        others.put(item)

        assert store.list_items() == []
        assert store.delete(("facts",), "k") is False
        own_item = item.model_copy(update={"user_id": "u1"})
        for view in (store, store.scoped(user_id="u1")):
            with pytest.raises(IntegrityError):
                view.put(own_item)
            with pytest.raises(IntegrityError):
                view.put(own_item, expected_revision=None)
        assert len(others.list_items()) == 1


def test_working_memories_are_hidden(schema: str, role: str) -> None:
    with (
        WorkingMemoryStore.initialize(config_of(role, schema, "u2")) as others,
        WorkingMemoryStore.initialize(config_of(role, schema, "u1")) as store,
    ):
        others.get_or_create("c2", "u2", "a1")
        before = others.get("c2")

        scoped = store.scoped(user_id="u1")
        assert scoped.get("c2") is None
        assert scoped.delete("c2") is False
        for view in (store, scoped):
            with pytest.raises(IntegrityError):
                view.get_or_create("c2", "u1", "a1")
        assert others.get("c2") == before
        store.get_or_create("c1", "u1", "a1")
        with store.locked("c1") as memory:
            memory.end_turn("mine", "mine")
        assert store.delete("c1")


@pytest.mark.parametrize("user_id", ["ann", "ann -c jazzmine.user_id=bob", "a\\b &%'\"é"])
def test_the_guide_passes_any_id_on(monkeypatch: pytest.MonkeyPatch, user_id: str) -> None:
    monkeypatch.setattr(MessageStore, "initialize", lambda config: config)
    names: dict[str, Any] = {}
    [code] = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    exec(code, names)

    options = str(conninfo_to_dict(names["store_of"](user_id)["dsn"])["options"])

    with postgres.connect(postgres.changed(postgres.dsn(), options=options)) as connection:
        found = connection.execute("SELECT current_setting('jazzmine.user_id')").fetchone()
    assert found == (user_id,)
