"""A program of one process that uses a session of the Claude Agent SDK.

Run as `python -m tests.adapters.claude_agent_sdk_program CONFIG COMMAND`, with the configuration of
a message store as JSON, and one of these commands:

- `turn PROMPT [SESSION]`: one turn of an agent, which reads `weather.txt` in its folder, in a
  new session or a stored one; prints the session, the answer, and what the model was sent last.
- `killed PROMPT`: such a turn in a new session, whose entries are stored at once, killed in the
  middle of the tool; prints the session.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, ResultMessage, query

from jazzmine.adapters.claude_agent_sdk import JazzmineSessionStore
from jazzmine.sync import MessageStore
from tests.adapters.scripted_claude import TOOL, scripted_claude

KEY: Any = {"project_key": "project", "session_id": "session"}


def main() -> None:
    config, command, *arguments = sys.argv[1:]
    with MessageStore.initialize(json.loads(config)) as store:
        sessions = JazzmineSessionStore(store, user_id="u1", agent_id="a1", record_runs=True)
        if command == "killed":
            killed: Any = _Killed(store, user_id="u1", agent_id="a1", record_runs=True)
            waiting = {"PreToolUse": [HookMatcher(hooks=[_wait])]}
            asyncio.run(_turn(killed, *arguments, hooks=waiting, session_store_flush="eager"))
        else:
            print(json.dumps(asyncio.run(_turn(sessions, *arguments))))


class _Killed(JazzmineSessionStore):
    """A store whose process is killed when it has stored the call of a tool."""

    async def append(self, key: Any, entries: Any) -> None:
        await super().append(key, entries)
        if '"tool_use"' in json.dumps(entries):
            print(key["session_id"], flush=True)
            os._exit(0)


async def _wait(*_: Any) -> Any:
    """Keep the tool from being called."""
    await asyncio.Event().wait()


async def _turn(
    sessions: Any, prompt: str, session_id: str | None = None, **more: Any
) -> list[Any]:
    folder = os.getcwd()
    with scripted_claude({"file_path": f"{folder}/weather.txt"}) as server:
        options = ClaudeAgentOptions(
            session_store=sessions,
            resume=session_id,
            cwd=folder,
            model="claude-sonnet-4-5",
            setting_sources=[],
            allowed_tools=[TOOL],
            env={
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
                "ANTHROPIC_API_KEY": "none",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
            **more,
        )
        answers = [
            (message.session_id, message.result)
            async for message in query(prompt=prompt, options=options)
            if isinstance(message, ResultMessage)
        ]
        return [*answers[-1], server.requests[-1]]


if __name__ == "__main__":
    main()
