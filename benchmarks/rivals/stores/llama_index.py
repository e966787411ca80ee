"""LlamaIndex: SQLAlchemyChatStore, on which its `Memory` is built."""

from __future__ import annotations

from typing import Any

from benchmarks.rivals.store import EVERYTHING, Said, Store, id_in


class Chat(Store):
    """An agent stores the question, and at its end what it came to."""

    imports = "from llama_index.core.memory import Memory"

    async def open(self, place: str) -> None:
        from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

        scheme, _, rest = place.rpartition(":/")
        url = f"postgresql+asyncpg:/{rest}" if scheme else f"sqlite+aiosqlite:///{place}"
        self._store: Any = SQLAlchemyChatStore("chat", async_database_uri=url)
        await self._store.count_messages("first")

    async def create(self, session: str, user: str, title: str) -> None:
        """A session is made with its first message, and has no title."""

    async def add(self, session: str, user: str, messages: list[Said]) -> None:
        await self._store.add_messages(session, list(map(_message, messages)))

    def parts(self, messages: list[Said]) -> list[list[Said]]:
        return [messages[:1], messages[1:]]

    async def newest(self, session: str, user: str, count: int) -> list[Said]:
        """With a limit it would return the oldest."""
        stored = await self._store.get_messages(session)
        return list(map(_said, stored if count == EVERYTHING else stored[-count:]))

    async def erase(self, user: str, sessions: list[str]) -> None:
        for session in sessions:
            await self._store.delete_messages(session)

    async def close(self) -> None:
        await self._store._async_engine.dispose()


def _message(message: Said) -> Any:
    from llama_index.core.base.llms.types import ChatMessage

    more: dict[str, Any] = {}
    if message["role"] == "tool":
        more["tool_call_id"] = message["call"]
    elif message["call"]:
        function = {"name": "track", "arguments": "{}"}
        more["tool_calls"] = [{"id": message["call"], "type": "function", "function": function}]
    return ChatMessage(content=message["text"], role=message["role"], additional_kwargs=more)


def _said(message: Any) -> Said:
    more = message.additional_kwargs
    call = more["tool_calls"][0]["id"] if "tool_calls" in more else more.get("tool_call_id", "")
    text = message.content
    return {"id": id_in(text), "role": message.role.value, "text": text, "call": call}
