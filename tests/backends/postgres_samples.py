"""Small records, and the configuration of a store, for the tests of PostgreSQL."""

from __future__ import annotations

from jazzmine.records.messages import Conversation, Message, MessageRole
from jazzmine.records.traces import TurnTrace
from tests.servers import postgres
from tests.servers.proxy import Proxy


def config(schema: str, **options: object) -> dict[str, object]:
    return {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema, **options}


def behind(proxy: Proxy, schema: str, **options: object) -> dict[str, object]:
    return config(
        schema, dsn=postgres.changed(postgres.dsn(), host="127.0.0.1", port=proxy.port), **options
    )


def conversation(conversation_id: str = "c1") -> Conversation:
    return Conversation(
        id=conversation_id, user_id="u", agent_id="a", title="t", created_at=1, last_updated_at=2
    )


def message(message_id: str = "m1", at: int = 1) -> Message:
    return Message(
        id=message_id,
        conversation_id="c1",
        user_id="u",
        role=MessageRole.ASSISTANT,
        original_content="hello",
        timestamp=at,
    )


def trace(message_id: str = "m1") -> TurnTrace:
    return TurnTrace(
        id=f"trace of {message_id}",
        message_id=message_id,
        conversation_id="c1",
        user_id="u",
        agent_id="a",
        turn_number=1,
        started_at_ms=1,
        ended_at_ms=2,
        total_latency_ms=1,
    )


def bound(sql: str, schema: str) -> bytes:
    """Return a statement for the tables of a schema."""
    return sql.replace("$schema", f'"{schema}"').encode()
