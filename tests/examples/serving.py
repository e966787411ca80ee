"""Run each example server in its own process, and use it over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from psycopg.conninfo import conninfo_to_dict

from jazzmine import Message, TurnTrace
from jazzmine.sync import MessageStore
from tests.servers.process import free_port

EXAMPLES = Path(__file__).parents[2] / "examples"
_SECONDS_TO_START = 60.0
_NO_CERTIFICATES = False  # reading the machine's certificates takes longer than most requests


@dataclass
class Served:
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def say(self, conversation: str, text: str, user: str = "ada", **more: str) -> httpx.Response:
        """Send one message, and wait for the reply."""
        return httpx.post(
            f"{self.url}/conversations/{quote(conversation)}/messages",
            json={"user_id": user, "text": text, **more},
            timeout=60,
            verify=_NO_CERTIFICATES,
        )

    def reply(self, conversation: str, text: str) -> str:
        """Send one message, and return what the shop replied."""
        return str(self.say(conversation, text).raise_for_status().json()["reply"])

    def history(self, conversation: str, user: str) -> list[Any]:
        """Return the messages of a conversation that a user may read."""
        response = httpx.get(
            f"{self.url}/conversations/{quote(conversation)}/messages",
            params={"user_id": user},
            timeout=60,
            verify=_NO_CERTIFICATES,
        )
        return list(response.raise_for_status().json())

    def ready(self) -> bool:
        """Return whether the server answers its health check."""
        try:
            response = httpx.get(f"{self.url}/health", timeout=10, verify=_NO_CERTIFICATES)
            return bool(response.raise_for_status().content)
        except httpx.HTTPError:
            return False


@contextmanager
def serving(
    command: Sequence[str],
    port: int,
    folder: Path,
    environment: Mapping[str, str],
) -> Iterator[Served]:
    """Run a server for a block; it must exit after a signal, without a traceback.

    Args:
        command: the arguments of Python.
    """
    log = folder / f"log-{port}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    served = Served(f"http://127.0.0.1:{port}", process, log)
    try:
        until = time.monotonic() + _SECONDS_TO_START
        while not served.ready():
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{command} did not start:\n{log.read_text()}")
            time.sleep(0.05)
        yield served
        process.terminate()
        code = process.wait(30)
    finally:
        # Kill the remaining processes; the process group is that of the server.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert code in (0, -signal.SIGTERM), log.read_text()
    assert "Traceback" not in log.read_text(), log.read_text()


@contextmanager
def agent_async(folder: Path, environment: Mapping[str, str]) -> Iterator[Served]:
    """The async chat under uvicorn."""
    port = free_port()
    command = ["-m", "uvicorn", "--app-dir", str(EXAMPLES), "--port", str(port), "agent_async:app"]
    with serving(command, port, folder, environment) as served:
        yield served


@contextmanager
def wsgi_app(folder: Path, environment: Mapping[str, str], *options: str) -> Iterator[Served]:
    """The sync chat under gunicorn."""
    port = free_port()
    command = ["-m", "gunicorn", "--config", str(EXAMPLES / "wsgi_gunicorn.py"), *options]
    command += ["--pythonpath", str(EXAMPLES), "--bind", f"127.0.0.1:{port}"]
    with serving([*command, "wsgi_app:application"], port, folder, environment) as served:
        yield served


@contextmanager
def django_project(folder: Path, environment: Mapping[str, str]) -> Iterator[Served]:
    """The Django project under gunicorn."""
    port = free_port()
    command = ["-m", "gunicorn", "--config", str(EXAMPLES / "wsgi_gunicorn.py")]
    command += ["--pythonpath", f"{EXAMPLES / 'django_project'},{EXAMPLES}"]
    command += ["--bind", f"127.0.0.1:{port}", "desk.wsgi"]
    with serving(command, port, folder, environment) as served:
        yield served


def many(served: Served, said: Sequence[tuple[str, str, Sequence[str]]]) -> list[list[Any]]:
    """Send the texts of many users concurrently; return the replies of each, in order."""

    async def talk(
        client: httpx.AsyncClient, conversation: str, user: str, texts: Sequence[str]
    ) -> list[Any]:
        replies = []
        for text in texts:
            response = await client.post(
                f"/conversations/{conversation}/messages", json={"user_id": user, "text": text}
            )
            replies.append(response.raise_for_status().json())
        return replies

    async def all_of_them() -> list[list[Any]]:
        limits = httpx.Limits(max_connections=100)
        async with httpx.AsyncClient(
            base_url=served.url, timeout=60, limits=limits, verify=_NO_CERTIFICATES
        ) as client:
            return await asyncio.gather(*(talk(client, *each) for each in said))

    return asyncio.run(all_of_them())


def url_of(dsn: str) -> str:
    """Return the URL of a database of PostgreSQL."""
    parts = {key: quote(str(value)) for key, value in conninfo_to_dict(dsn).items()}
    return "postgresql://{user}:{password}@{host}:{port}/{dbname}".format(**parts)


def stored(url: str, conversation: str) -> tuple[list[Message], list[TurnTrace]]:
    """Read a conversation from the store, with a store of the test."""
    with MessageStore.initialize(url) as store:
        messages = store.get_messages_by_conversation_id(conversation)
        return messages, store.get_turn_traces_by_conversation_id(conversation)


def assert_whole(url: str, conversations: Sequence[str], turns: int) -> list[list[Message]]:
    """Fail unless each question and its reply are stored once, in order."""
    with MessageStore.initialize(url) as store:
        return [_whole(store, conversation, turns) for conversation in conversations]


def _whole(store: MessageStore, conversation: str, turns: int) -> list[Message]:
    messages = store.get_messages_by_conversation_id(conversation)
    traces = store.get_turn_traces_by_conversation_id(conversation)
    assert [each.role.value for each in messages] == ["user", "assistant"] * turns
    # A working memory that is made anew counts its turns from 1 again.
    assert {trace.message_id for trace in traces} == {each.id for each in messages[1::2]}
    assert len(traces) == turns
    assert [f"{each.id}/reply" for each in messages[::2]] == [each.id for each in messages[1::2]]
    return messages
