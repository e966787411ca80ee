"""Many traces in PostgreSQL, and the calls that search them and sum them up."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.frame.postgres import median, open_store, schema_of_this_process
from benchmarks.frame.scenario import Figures, Scenario


class FillTraces(Scenario):
    """Stores this number of traces, of 50 agents with 20 tools, by one query."""

    def __init__(self, folder: Path, dsn: str, count: int) -> None:
        super().__init__(folder)
        self._dsn, self._traces = dsn, count

    async def measure(self) -> Figures:
        import psycopg

        await (await open_store(self._dsn)).close()
        async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as connection:
            await connection.execute(
                f"SET search_path = {schema_of_this_process()}".encode(), prepare=False
            )
            await connection.execute(FILL_TRACES.replace("COUNT", str(self._traces)).encode())
            await connection.execute(b"VACUUM ANALYZE messages, turn_traces")
        return {}


FILL_TRACES = """
INSERT INTO conversations (id, user_id, agent_id, title, created_at, last_updated_at)
SELECT 'many ' || n, 'u', 'a', 'title', n, n FROM generate_series(0, 999) AS n
ON CONFLICT DO NOTHING;

INSERT INTO messages (id, conversation_id, user_id, role, original_content, timestamp)
SELECT 'many ' || n, 'many ' || n % 1000, 'u', 'assistant', 'text', n
FROM generate_series(1, COUNT) AS n;

INSERT INTO turn_traces (
    id, message_id, conversation_id, user_id, agent_id, turn_number, started_at_ms, ended_at_ms,
    total_latency_ms, tool_traces)
SELECT
    'many ' || n, 'many ' || n, 'many ' || n % 1000, 'u', 'agent ' || n % 7, n, n * 1000,
    n * 1000 + 5, 5,
    jsonb_build_array(jsonb_build_object(
        'task_index', 1, 'sandbox', 'sandbox ' || n % 11, 'mode', 'plan',
        'description', md5(n::text), 'final_script', repeat(md5(n::text), 30),
        'success', n % 10 > 0, 'final_data', n))
FROM generate_series(1, COUNT) AS n
"""


class Traces(Scenario):
    """Calls that search traces, one after another."""

    def __init__(self, folder: Path, dsn: str, call: str) -> None:
        super().__init__(folder)
        self._dsn, self._name = dsn, call
        self._count = itertools.count()
        self._call: Callable[[int], Awaitable[object]]

    async def prepare(self) -> None:
        from jazzmine.core.message_store import TraceFilter

        self._store = await open_store(self._dsn)
        agent, tool = "agent 3", {"sandbox": "sandbox 4"}
        filters = {
            "find, agent": TraceFilter(agent_id=agent),
            "find, tool": TraceFilter(tool=tool),
            "find, agent and tool": TraceFilter(agent_id=agent, tool=tool),
            "find, agent and a rare tool": TraceFilter(agent_id=agent, tool={"final_data": 10}),
        }
        page, find = self._store.get_turn_traces_by_agent_id, self._store.find_turn_traces
        offsets = {"page of an agent": 0, "page of an agent, 30,000 later": 30_000}
        if self._name in filters:
            self._call = lambda n: find(filters[self._name], limit=10)
        else:
            self._call = lambda n: page(agent, limit=10, offset=offsets[self._name])

    async def measure(self) -> Figures:
        return {"seconds": await median(self._call, self._count, 20)}

    async def finish(self) -> None:
        await self._store.close()
