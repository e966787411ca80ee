"""OpenAI Agents: SQLiteSession and SQLAlchemySession."""

from __future__ import annotations

from typing import Any

from benchmarks.rivals.store import EVERYTHING, Said, Store, id_in


class Sessions(Store):
    """The runner stores the question, then what each call of the model came to."""

    imports = "from agents import Agent, Runner, SQLiteSession"

    def _session(self, session: str) -> Any:
        raise NotImplementedError

    async def create(self, session: str, user: str, title: str) -> None:
        """A session is made with its first message, and has no title."""

    async def add(self, session: str, user: str, messages: list[Said]) -> None:
        await self._session(session).add_items(list(map(_item, messages)))

    def parts(self, messages: list[Said]) -> list[list[Said]]:
        question, call, result, answer = messages
        return [[question], [call, result], [answer]]

    async def newest(self, session: str, user: str, count: int) -> list[Said]:
        limit = None if count == EVERYTHING else count
        return list(map(_said, await self._session(session).get_items(limit)))

    async def erase(self, user: str, sessions: list[str]) -> None:
        for session in sessions:
            await self._session(session).clear_session()


class SQLite(Sessions):
    """SQLiteSession, one object for each session."""

    async def open(self, place: str) -> None:
        self._place, self._sessions = place, dict[str, Any]()

    def _session(self, session: str) -> Any:
        from agents import SQLiteSession

        if session not in self._sessions:
            self._sessions[session] = SQLiteSession(session, self._place)
        return self._sessions[session]

    async def close(self) -> None:
        for session in self._sessions.values():
            session.close()


class SQLAlchemy(Sessions):
    """SQLAlchemySession on PostgreSQL with asyncpg, all on one engine."""

    async def open(self, place: str) -> None:
        from sqlalchemy.ext.asyncio import create_async_engine

        self._engine = create_async_engine(place.replace("postgresql:", "postgresql+asyncpg:"))
        self._sessions = dict[str, Any]()
        await self._session("first").get_items(1)

    def _session(self, session: str) -> Any:
        from agents.extensions.memory import SQLAlchemySession

        if session not in self._sessions:
            made = SQLAlchemySession(session, engine=self._engine, create_tables=True)
            self._sessions[session] = made
        return self._sessions[session]

    async def close(self) -> None:
        await self._engine.dispose()


def _item(message: Said) -> dict[str, Any]:
    if message["role"] == "tool":
        return {
            "type": "function_call_output",
            "call_id": message["call"],
            "output": message["text"],
        }
    if message["call"]:
        call = {"type": "function_call", "call_id": message["call"], "name": "track"}
        return {**call, "arguments": message["text"]}
    return {"role": message["role"], "content": message["text"]}


def _said(item: Any) -> Said:
    text = item.get("content") or item.get("output") or item.get("arguments")
    kind = item.get("type")
    role = {"function_call": "assistant", "function_call_output": "tool"}.get(kind)
    call = item.get("call_id", "")
    return {"id": id_in(text), "role": role or item["role"], "text": text, "call": call}
