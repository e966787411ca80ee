"""LangChain: PostgresChatMessageHistory."""

from __future__ import annotations

import uuid
from typing import Any

from benchmarks.rivals.store import Said, Store
from benchmarks.rivals.stores.langgraph import from_langchain, to_langchain


class History(Store):
    """`RunnableWithMessageHistory` adds a turn at its end, in one call."""

    imports = "from langchain_postgres import PostgresChatMessageHistory"

    async def open(self, place: str) -> None:
        import psycopg
        from langchain_postgres.chat_message_histories import PostgresChatMessageHistory

        self._connection = psycopg.connect(place)
        self._place = place
        PostgresChatMessageHistory.create_tables(self._connection, "chat_history")

    async def create(self, session: str, user: str, title: str) -> None:
        """A session is made with its first message, and has no title."""

    async def add(self, session: str, user: str, messages: list[Said]) -> None:
        self._history(session).add_messages(list(map(to_langchain, messages)))

    async def newest(self, session: str, user: str, count: int) -> list[Said]:
        return list(map(from_langchain, self._history(session).get_messages()[-count:]))

    async def erase(self, user: str, sessions: list[str]) -> None:
        for session in sessions:
            self._history(session).clear()

    async def close(self) -> None:
        self._connection.close()

    def _history(self, session: str) -> Any:
        import psycopg
        from langchain_postgres.chat_message_histories import PostgresChatMessageHistory

        if self._connection.closed:
            self._connection = psycopg.connect(self._place)
        name = str(uuid.uuid5(uuid.NAMESPACE_OID, session))
        return PostgresChatMessageHistory("chat_history", name, sync_connection=self._connection)
