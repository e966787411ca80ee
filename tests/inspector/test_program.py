"""`jazzmine inspect` as a program: where it listens, what it writes, and how it ends."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import httpx
import pytest

from jazzmine.sync import MessageStore
from tests.behaviour.samples import conversation
from tests.cli.program import run_program
from tests.inspector.served import served


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of a store with one conversation."""
    url = f"sqlite:{tmp_path / 'messages.db'}"
    with MessageStore.initialize(url) as store:
        store.store_conversation(conversation("c1"))
    return url


def test_it_serves_on_the_loopback_address_and_never_logs_the_token(
    tmp_path: Path, url: str
) -> None:
    with served(tmp_path, "--store", url) as program:
        assert program.base.startswith("http://127.0.0.1:")
        assert len(program.token) >= 32
        with httpx.Client(base_url=program.base, follow_redirects=True) as client:
            assert client.get("/").status_code == 403
            assert "A trip to Lisbon" in client.get(program.address).text
            assert "A trip to Lisbon" in client.get("/").text
            assert client.get("/nowhere", params={"token": program.token}).status_code == 404
            assert client.get("/", headers={"host": "evil.example"}).status_code == 400
            assert "server" not in client.get("/").headers
        port = int(program.base.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as broken:
            broken.sendall(f"GET /?token={program.token} NONSENSE\r\n\r\n".encode())
            broken.recv(1000)
        status, written = program.stop()
    assert program.token not in written
    assert "Traceback" not in written
    assert status == 130


def test_its_address_is_opened_in_the_browser_if_asked(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", str(browser))
    with served(tmp_path, "--store", url, "--open") as program:
        until = time.monotonic() + 60
        while not opened.exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        assert opened.read_text().strip() == program.address


def test_another_address_is_served_with_a_warning(tmp_path: Path, url: str) -> None:
    with served(
        tmp_path, "--store", url, "--host", "0.0.0.0", "--name", "inspector.test"
    ) as program:
        port = program.base.rpartition(":")[2]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            for name, status in (("inspector.test", 303), ("other.test", 400)):
                answer = client.get(
                    "/", params={"token": program.token}, headers={"host": f"{name}:{port}"}
                )
                assert answer.status_code == status
        assert "can read all that is stored" in program.stop()[1]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--store", "sqlite:{folder}/mistyped.db"], 1),
        (["--store", "nonsense:x"], 2),
        (["--store", "{url}", "--memory", "sqlite:{folder}/mistyped.db"], 1),
        (["--store", "{url}", "--memory", "redis://127.0.0.1:1?timeout=1"], 3),
        (["--store", "{url}", "--host", "203.0.113.7"], 1),
        (["--store", "{url}", "--port", "70000"], 2),
        (["--store", "{url}", "--port", "{taken}"], 1),
    ],
)
def test_what_cannot_be_opened_is_told_in_a_line(
    tmp_path: Path, url: str, arguments: list[str], status: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        places = {"folder": tmp_path, "url": url, "taken": taken.getsockname()[1]}
        ran = run_program("inspect", *(each.format(**places) for each in arguments))
    assert ran.status == status
    assert "Traceback" not in ran.errors
    assert ran.output == ""
    assert not (tmp_path / "mistyped.db").exists()
