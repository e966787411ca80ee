"""PostgreSQL refuses a statement: whatever the reason, the call raises an error of ours."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from jazzmine.errors import StoreUnavailableError
from jazzmine.sync import open_stores
from jazzmine.sync.long_term_memory import MemoryItem
from tests.backends.postgres_samples import config, conversation, message
from tests.servers import postgres

# https://www.postgresql.org/docs/current/errcodes-appendix.html
REASONS = {
    "disk full": "53100",
    "out of memory": "53200",
    "too many connections": "53300",
    "lock not available": "55P03",
    "read-only": "25006",
    "damaged data": "XX001",
    "internal error": "XX000",
    "input or output error": "58030",
    "cancelled": "57014",
}
TABLES = ("conversations", "messages", "memory_items", "working_memory")


@pytest.mark.parametrize("code", REASONS.values(), ids=REASONS)
def test_what_the_server_refuses_is_our_error(schema: str, code: str) -> None:
    item = MemoryItem(namespace=("n",), key="k", value={"likes": "tea"}, user_id="u")
    with (
        open_stores(config(schema, timeout=2)) as stores,
        postgres.connect(postgres.dsn(), options=f"-c search_path={schema}") as admin,
    ):
        stores.messages.store_conversation(conversation())
        stores.long_term_memory.put(item)
        stores.working_memory.get_or_create("c", "u", "agent")
        calls: list[Callable[[], object]] = [
            lambda: stores.messages.append_messages("c1", [message()]),
            lambda: stores.long_term_memory.put(item),
            lambda: stores.working_memory.end_turn("c", "Hello", "greet"),
        ]
        admin.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END$$".encode()
        )
        try:
            for table in TABLES:
                admin.execute(
                    f"CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON {table}"
                    " FOR EACH STATEMENT EXECUTE FUNCTION refuse()".encode()
                )
            for call in calls:
                with pytest.raises(StoreUnavailableError) as raised:
                    call()
                assert isinstance(raised.value.__cause__, psycopg.Error)
        finally:
            admin.execute(b"DROP FUNCTION refuse CASCADE")

        for call in calls:
            call()
