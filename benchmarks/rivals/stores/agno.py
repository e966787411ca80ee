"""Agno: SqliteDb and PostgresDb."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.rivals.store import EVERYTHING, Said, Store, turn


class Database(Store):
    """An agent reads its session before a run, and stores session and run at its end."""

    imports = "import agno.agent, agno.db.sqlite"

    def _database(self, place: str) -> Any:
        raise NotImplementedError

    async def open(self, place: str) -> None:
        self._db = self._database(place)

    async def create(self, session: str, user: str, title: str) -> None:
        from agno.session import AgentSession

        made = AgentSession(session_id=session, agent_id="desk", user_id=user)
        made.session_data = {"session_name": title, "session_state": {}}
        made.created_at = int(time.time())
        self._db.upsert_session(made)

    async def add(self, session: str, user: str, messages: list[Said]) -> None:
        from agno.agent._run import resolve_run_index

        stored, run = self._session(session), _run(session, user, messages)
        stored.upsert_run(run)
        index = resolve_run_index(stored, run)
        self._db.upsert_session(stored)
        self._db.upsert_run(run, session_id=session, user_id=user, run_index=index)

    async def fill(self, session: str, user: str, first: int, count: int) -> None:
        """Store runs alone: to read the session before each would take too long."""
        for number in range(first // 4, (first + count) // 4):
            run = _run(session, user, turn(f"{session}-{number}"))
            self._db.upsert_run(run, session_id=session, user_id=user, run_index=number)

    async def newest(self, session: str, user: str, count: int) -> list[Said]:
        """Read as many runs as there may be messages, since each has one at least."""
        stored = self._session(session, None if count == EVERYTHING else count)
        return list(map(_said, stored.get_messages()[-count:])) if stored else []

    async def erase(self, user: str, sessions: list[str]) -> None:
        self._db.delete_sessions(sessions)

    async def close(self) -> None:
        self._db.db_engine.dispose()

    def _session(self, session: str, runs: int | None = None) -> Any:
        from agno.db.base import SessionType

        return self._db.get_session(session, SessionType.AGENT, runs_limit=runs)


class SQLite(Database):
    """SqliteDb."""

    def _database(self, place: str) -> Any:
        from agno.db.sqlite import SqliteDb

        return SqliteDb(db_file=place)


class PostgreSQL(Database):
    """PostgresDb with psycopg."""

    def _database(self, place: str) -> Any:
        from agno.db.postgres import PostgresDb

        return PostgresDb(db_url=place.replace("postgresql:", "postgresql+psycopg:"))


def _run(session: str, user: str, messages: list[Said]) -> Any:
    from agno.models.message import Message
    from agno.run.agent import RunOutput
    from agno.run.base import RunStatus

    return RunOutput(
        run_id=messages[0]["id"],
        agent_id="desk",
        session_id=session,
        user_id=user,
        status=RunStatus.completed,
        messages=[Message(**_fields(message)) for message in messages],
    )


def _fields(message: Said) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": message["id"],
        "role": message["role"],
        "content": message["text"],
    }
    if message["role"] == "tool":
        fields["tool_call_id"] = message["call"]
    elif message["call"]:
        function = {"name": "track", "arguments": "{}"}
        fields["tool_calls"] = [{"id": message["call"], "type": "function", "function": function}]
    return fields


def _said(message: Any) -> Said:
    call = message.tool_calls[0]["id"] if message.tool_calls else message.tool_call_id or ""
    return {"id": message.id, "role": message.role, "text": message.content, "call": call}
