"""The functions of PostgreSQL for scoped stores, and those without a scope beside them."""

from __future__ import annotations

import re

import pytest

from jazzmine.backends.postgres import statements as sql
from jazzmine.backends.postgres.functions import functions_of
from jazzmine.backends.postgres.schema import ITEM_TABLES, MESSAGE_TABLES

FUNCTIONS = {
    **functions_of("chat", MESSAGE_TABLES.sources, "english"),
    **functions_of("chat", ITEM_TABLES.sources),
}
SCOPED = [name for name in FUNCTIONS if name.endswith("_scoped")]
WRITES = [
    sql.APPEND,
    sql.CHANGE_ITEMS,
    sql.DELETE_CONVERSATION,
    sql.DELETE_MESSAGE,
    sql.EDIT_CONVERSATION,
    sql.ERASE,
    sql.FLAG_MESSAGE,
    sql.FORK,
    sql.POP,
    sql.PRUNE,
    sql.PRUNE_ITEMS,
    sql.REWIND,
    sql.STORE,
    sql.STORE_MESSAGE,
]


@pytest.mark.parametrize("name", SCOPED)
def test_a_function_without_a_scope_has_no_part_of_one(name: str) -> None:
    definition, body = FUNCTIONS[name.removesuffix("_scoped")]

    assert "viewer" not in definition
    assert "$scoped" not in definition + FUNCTIONS[name][0]
    # What is left out are conditions and whole checks.
    scoped = iter(re.findall(r"\w+", FUNCTIONS[name][1]))
    assert all(word in scoped for word in re.findall(r"\w+", body))


@pytest.mark.parametrize("write", WRITES)
def test_each_write_has_a_scoped_function(write: str) -> None:
    called = re.search(r"\.(\w+)\((.*)\)", sql.scoped(write))
    assert called is not None

    definition, _ = FUNCTIONS[called[1]]

    parameters = definition[definition.index("(") + 1 : definition.index("RETURNS")]
    assert parameters.startswith("viewer text")
    assert parameters.count(",") == called[2].count(",")


def test_a_scoped_query_names_no_table_of_all_users() -> None:
    query = sql.seen(sql.messages_page("conversation_id", 20, True))

    assert query.count("$schema.messages") == 1
    assert query.count("$schema.conversations") == 3
