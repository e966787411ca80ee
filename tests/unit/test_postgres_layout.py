"""Convert text, JSON and rows to the form in PostgreSQL and back, without a server."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic.fields import FieldInfo
from pydantic_core import to_json

from jazzmine.backends.columns import CONVERSATIONS as CONVERSATIONS_TABLE
from jazzmine.backends.columns import MESSAGES as MESSAGES_TABLE
from jazzmine.backends.columns import TURN_TRACES as TRACES_TABLE
from jazzmine.backends.columns import Table
from jazzmine.backends.postgres.dsn import Address
from jazzmine.backends.postgres.schema import migrations
from jazzmine.backends.postgres.text import from_json_text, from_text, to_json_text, to_text
from jazzmine.errors import InvalidAddressError

TEXT = st.text(st.sampled_from("a01\0\ufdd0\\\"u'é\U0001f600") | st.characters(codec="utf-8"))


@given(TEXT)
@example("\ufdd00\0\ufdd01")
def test_any_text_comes_back_and_none_holds_a_null(text: str) -> None:
    assert "\0" not in to_text(text)
    assert from_text(to_text(text)) == text


@given(TEXT, TEXT)
def test_two_texts_are_never_stored_as_one(one: str, other: str) -> None:
    assert (to_text(one) == to_text(other)) == (one == other)


@given(TEXT)
@example("\\u0000")
def test_any_text_in_json_comes_back_and_none_holds_a_null(text: str) -> None:
    stored = to_json_text(to_json([{text.replace("\0", ""): text}]))
    assert "\\u0000" not in stored.replace("\\\\", "")
    assert json.loads(from_json_text(stored)) == [{text.replace("\0", ""): text}]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (1e16, "10000000000000000.0"),
        (-1e22, "-10000000000000000000000.0"),
        (2**63 - 1, "9223372036854775807"),
        (1.0, "1.0"),
        ("1e+16", '"1e+16"'),
    ],
)
def test_a_number_keeps_its_type(value: object, stored: str) -> None:
    """jsonb has no exponents: it would make an integer of 1e16."""
    assert to_json_text(to_json([1e300, value])) == f"[{int(1e300)}.0,{stored}]"


@pytest.mark.parametrize("table", [CONVERSATIONS_TABLE, MESSAGES_TABLE, TRACES_TABLE])
def test_a_row_without_a_field_has_the_fields_default(table: Table) -> None:
    made = re.search(rf"\$schema\.{table.name} \((.*?)\n\);", migrations()[0].sql, re.DOTALL)
    assert made is not None
    stored = dict(re.findall(r"^    (\w+) +(.+?),?$", made[1], re.MULTILINE))
    for name, field in table.kind.model_fields.items():
        column = f"{table.types[name]} {_constraints(field)}".strip()
        found = stored[name].partition(" REFERENCES ")[0]
        assert found.replace("PRIMARY KEY", "NOT NULL").removesuffix(" UNIQUE") == column


def _constraints(field: FieldInfo) -> str:
    """What makes the database give a row that was stored without a field the field's default."""
    if field.default_factory in (list, dict):
        return f"NOT NULL DEFAULT '{field.get_default(call_default_factory=True)}'"
    if field.is_required() or field.default_factory is not None:
        return "NOT NULL"
    if field.default is None:
        return ""
    default = f"'{field.default}'" if isinstance(field.default, str) else json.dumps(field.default)
    return f"NOT NULL DEFAULT {default}"


def test_an_address_shows_hosts_and_ports_alone() -> None:
    address = Address.of("postgresql://me:hunter2@one:1,two:2/db?sslmode=disable")
    assert address.name == "one:1,two:2"
    assert "hunter2" not in repr(address)
    assert Address.of("host=x password=hunter2").name == "x:5432"
    with pytest.raises(InvalidAddressError):
        Address.of("postgresql://me:hunter2@h:70000/db")
