"""Small records, and the configuration of a store, for the tests of PostgreSQL."""

from __future__ import annotations

from jazzmine.records.messages import Conversation, Message, MessageRole
from jazzmine.records.traces import TurnTrace
from tests.behaviour import samples
from tests.servers import postgres
from tests.servers.proxy import Proxy


def config(schema: str, **options: object) -> dict[str, object]:
    return {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema, **options}


def behind(proxy: Proxy, schema: str, **options: object) -> dict[str, object]:
    return config(
        schema, dsn=postgres.changed(postgres.dsn(), host="127.0.0.1", port=proxy.port), **options
    )


def conversation(conversation_id: str = "c1") -> Conversation:
    return samples.conversation(conversation_id, user_id="u", agent_id="a")


def message(message_id: str = "m1", at: int = 1) -> Message:
    given = {"role": MessageRole.ASSISTANT, "original_content": "hello", "timestamp": at}
    return samples.message(message_id, user_id="u", **given)


def trace(message_id: str = "m1") -> TurnTrace:
    return samples.trace(message_id, id=f"trace of {message_id}", user_id="u", agent_id="a")


def bound(sql: str, schema: str) -> bytes:
    """Return a statement for the tables of a schema."""
    return sql.replace("$schema", f'"{schema}"').encode()
