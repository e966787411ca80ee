"""Text, JSON and rows as PostgreSQL holds them, and back; no server is needed."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import to_json

from jazzmine.config import PostgresConfig, message_store_config
from jazzmine.errors import InvalidAddressError
from jazzmine.layouts.postgres import statements
from jazzmine.layouts.postgres.addresses import Address
from jazzmine.layouts.postgres.rows import CONVERSATIONS, messages_json
from jazzmine.layouts.postgres.schema import migrations
from jazzmine.layouts.postgres.text import from_json_text, from_text, to_json_text, to_text
from jazzmine.records.base import Record, seal
from jazzmine.records.messages import Conversation, Message, MessageRole
from jazzmine.records.repair import Repairs
from jazzmine.records.traces import TurnTrace

TEXT = st.text(st.sampled_from("a01\0\ufdd0\\\"u'é\U0001f600") | st.characters(codec="utf-8"))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | FLOATS | TEXT,
    lambda inner: (
        st.lists(inner) | st.dictionaries(TEXT.filter(lambda key: "\0" not in key), inner)
    ),
)


def as_jsonb(text: str) -> str:
    """What jsonb makes of numbers: decimals without an exponent and without a negative zero."""

    def decimal(token: str) -> Any:
        return Number(f"{abs(Decimal(token)):f}" if Decimal(token) == 0 else f"{Decimal(token):f}")

    return write(json.loads(text, parse_float=decimal, parse_int=decimal))


class Number(str):
    """A number as it is written."""


def write(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(write, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{write(key)}: {write(one)}' for key, one in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


@given(TEXT)
@example("\ufdd00\0\ufdd01")
def test_any_text_comes_back_and_none_holds_a_null(text: str) -> None:
    assert "\0" not in to_text(text)
    assert from_text(to_text(text)) == text


@given(TEXT, TEXT)
def test_two_texts_are_never_stored_as_one(one: str, other: str) -> None:
    assert (to_text(one) == to_text(other)) == (one == other)


@given(JSON)
@example([1e16, -0.0, 1.0, 1, 1e-7, 5e-324, 1.7e308, 2**63 - 1, "0.00", "-0.0", "1e+16", "\\u0000"])
def test_any_json_comes_back_with_the_types_of_its_numbers(value: Any) -> None:
    stored = to_json_text(to_json({"metadata": [value]}))
    assert "\\u0000" not in stored.replace("\\\\", "")
    back = json.loads(from_json_text(as_jsonb(stored)))["metadata"]
    assert repr(back) == repr([value])


@pytest.mark.parametrize(
    ("kind", "columns", "writes"),
    [
        (Conversation, statements.CONVERSATION_COLUMNS, statements.STORE_CONVERSATION),
        (Message, statements.MESSAGE_COLUMNS, statements.STORE_MESSAGE),
        (TurnTrace, statements.TRACE_COLUMNS, statements.STORE_TRACE),
    ],
)
def test_statements_name_every_field(kind: type[Record], columns: str, writes: str) -> None:
    fields = list(kind.model_fields)
    read = [re.sub(r".* AS ", "", column.strip()) for column in columns.split(",")]
    assert read == [*fields, "seq"]
    insert, select, given_columns, updates = re.split("SELECT|FROM|ON CONFLICT", writes)
    assert re.findall(r"\w+", insert[insert.index("(") :]) == fields
    assert set(re.findall(r"\w+", select)) >= set(fields)
    assert re.findall(r"(\w+) (?:text|\w*json\w*|bigint|float8|boolean)", given_columns) == fields
    updated = set(re.findall(r"^    (\w+) =", updates, re.MULTILINE))
    kept = {"id", "message_id"} if kind is TurnTrace else {"id"}
    assert updated - {"seq", "id"} == set(fields) - kept


def test_of_two_messages_with_one_id_the_later_one_takes_the_place_of_the_first() -> None:
    def message(name: str, text: str) -> Message:
        return Message(
            id=name,
            conversation_id="c",
            user_id="u",
            role=MessageRole.USER,
            original_content=text,
            timestamp=1,
        )

    given_messages = [message("a", "1"), message("b", "2"), message("a", "3")]
    sent = json.loads(messages_json([seal(one, Message) for one in given_messages]))
    assert [(one["id"], one["original_content"]) for one in sent] == [("a", "3"), ("b", "2")]


def test_a_row_that_breaks_a_records_rules_is_refused() -> None:
    with pytest.raises(ValidationError, match="metadata"):
        CONVERSATIONS.record(("c", "u", "a", "t", 1, 2, "[]", 1), Repairs())


def test_a_row_becomes_a_record_of_the_public_class() -> None:
    record = CONVERSATIONS.record(("c", "u", "a", "t", 1, 2, '{"a": 0.00}', 1), Repairs())
    assert type(record) is Conversation
    assert repr(record.metadata) == "{'a': -0.0}"
    record.title = "changed"
    assert record.model_copy(deep=True) == record


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [step.version for step in migrations()] == list(range(1, len(migrations()) + 1))


def test_a_url_of_either_scheme_is_a_configuration() -> None:
    for scheme in ("postgres", "postgresql", "POSTGRESQL"):
        config = message_store_config(f"{scheme}://me:hunter2@h/db")
        assert isinstance(config, PostgresConfig)
        assert config.dsn == f"{scheme.lower()}://me:hunter2@h/db"
        assert "hunter2" not in repr(config)


def test_an_address_shows_hosts_and_ports_alone() -> None:
    address = Address.of("postgresql://me:hunter2@one:1,two:2/db?sslmode=disable")
    assert address.name == "one:1,two:2"
    assert "hunter2" not in repr(address)
    assert Address.of("host=x password=hunter2").name == "x:5432"
    with pytest.raises(InvalidAddressError):
        Address.of("postgresql://me:hunter2@h:70000/db")
