"""The transcripts of Claude's SDK, which are written here."""

from __future__ import annotations

from typing import Any

from jazzmine.adapters.claude_agent_sdk import JazzmineSessionStore
from tests.adapters.played_base import Played


class ClaudeAgentSDK(Played):
    conversation_id = "claude_agent_sdk/u1/project/session"
    is_exact = True
    number = 0

    def prepare(self) -> None:
        self.sessions: Any = JazzmineSessionStore(
            self.store, user_id="u1", agent_id="a1", record_runs=True
        )

    async def run(self, text: str) -> None:
        await self._turn(text, {"content": "rain in Lisbon"})

    async def add(self, texts: list[str]) -> None:
        key = {"project_key": "project", "session_id": "session"}
        await self.sessions.append(
            key, [{"type": "user", "uuid": text, "message": {"content": text}} for text in texts]
        )

    async def run_rejected(self, text: str) -> None:
        await self._turn(text, {"content": "The user has rejected it.", "is_error": True})

    async def _turn(self, text: str, answer: dict[str, Any]) -> None:
        self.number += 1
        name = f"{self.number}"
        usage = {"input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 5}

        def entry(part: int, kind: str, content: Any, **more: Any) -> dict[str, Any]:
            return {
                "type": kind,
                "uuid": f"e{name}{part}",
                "timestamp": f"2026-11-23T20:{self.number:02d}:{part:02d}.000Z",
                "message": {"role": kind, "content": content, **more},
            }

        call = {
            "type": "tool_use",
            "id": f"t{name}",
            "name": "weather",
            "input": {"city": "Lisbon"},
        }
        result = {"type": "tool_result", "tool_use_id": f"t{name}", **answer}
        said = {"type": "text", "text": "It rains."}
        of_model = {"model": "claude", "usage": usage}
        entries = [
            entry(0, "user", text),
            entry(1, "assistant", [call], id=f"m{name}1", **of_model),
            entry(2, "user", [result]),
            entry(3, "assistant", [said], id=f"m{name}3", **of_model),
        ]
        key = {"project_key": "project", "session_id": "session"}
        try:
            self.on_question()
        except OSError as error:
            failed = entry(1, "assistant", str(error), id=f"m{name}1", **of_model)
            entries[1:] = [{**failed, "isApiErrorMessage": True}]
        await self.sessions.append(key, entries[:2])
        if entries[2:]:
            self.on_call()
        await self.sessions.append(key, entries[2:])

    async def history(self, conversation_id: str | None = None) -> list[tuple[str, Any]]:
        name = (conversation_id or self.conversation_id).rpartition("/")[2]
        entries: Any = await self.sessions.load({"project_key": "project", "session_id": name})
        found: list[tuple[str, Any]] = []
        for entry in entries or []:
            content = entry["message"]["content"]
            for block in content if isinstance(content, list) else [{"text": content}]:
                kind = {"tool_use": "call", "tool_result": "answer"}.get(
                    str(block.get("type")), "said"
                )
                found.append(
                    (kind, block.get("id") or block.get("tool_use_id") or block.get("text"))
                )
        return found
