"""What the program writes reaches any reader, and what it cannot write is said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jazzmine.cli.places import Batch, Messages
from jazzmine.sync import MessageStore
from jazzmine.sync.maintenance import iter_records
from tests.behaviour.samples import conversation, message, trace
from tests.cli.program import COMMAND, environment, run, run_program
from tests.servers.programs import Program

READING = [
    ["show", "c1"],
    ["show", "c1", "--json"],
    ["context", "c1"],
    ["ls"],
    ["traces"],
    ["usage"],
    ["export"],
]


@pytest.fixture
def foreign_url(tmp_path: Path) -> str:
    url = f"json:{tmp_path / 'messages.json'}"
    with MessageStore.initialize(url) as store:
        store.store_conversation(conversation(title="東京 \U0001f600"))
        store.store_message(message("m1", original_content="東京 \U0001f600"))
        store.store_turn_trace(trace("m1", detected_intent="東京"))
    return url


def started(url: str, command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command, whose standard output is that of the options."""
    options.setdefault("stdout", subprocess.PIPE)
    given = environment(JAZZMINE_MESSAGE_STORE=url, **options.pop("env", {}))
    with Program([*COMMAND, *command], env=given, stderr=subprocess.PIPE, **options) as program:
        output, errors = program.communicate(timeout=120)
    return subprocess.CompletedProcess(command, program.returncode, output, errors)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_characters_that_the_output_cannot_hold_are_replaced(
    foreign_url: str, encoding: str, command: list[str]
) -> None:
    ran = started(foreign_url, command, env={"PYTHONIOENCODING": encoding})
    assert (ran.returncode, ran.stderr) == (0, b"")
    if "--json" in command:
        lines = ran.stdout.decode(encoding).splitlines()
        assert json.loads(lines[1])["original_content"] == "東京 \U0001f600"


@pytest.mark.parametrize("command", [["ls"], ["export"]], ids=" ".join)
def test_a_full_output_is_an_error(foreign_url: str, command: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        ran = started(foreign_url, command, stdout=full)
    assert (ran.returncode, b"No space left on device" in ran.stderr) == (1, True)


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_pipe_that_nobody_reads_is_141(foreign_url: str, command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        ran = started(foreign_url, command, stdout=pipe)
    assert (ran.returncode, ran.stderr) == (141, b"")


def test_an_export_on_a_symbolic_link_keeps_the_link(url: str, tmp_path: Path) -> None:
    target, link = tmp_path / "target.jsonl", tmp_path / "link.jsonl"
    target.write_text("before")
    link.symlink_to(target)
    assert run("export", "-o", str(link), "--store", url).status == 0
    assert link.is_symlink()
    assert '"end"' in target.read_text()


@pytest.mark.parametrize("option", ["--output", "--html"])
def test_an_export_goes_into_a_pipe_by_its_name(url: str, option: str) -> None:
    selected = ["c1"] if option == "--html" else []
    ran = run_program("export", *selected, option, "/dev/stdout", "--store", url)
    assert (ran.status, ran.errors) == (0, "")
    assert "an answer" in ran.output


_SLOW = """
import time
from jazzmine.cli import main, places
read = places.Messages.batches
def slow(place):
    yield next(read(place))
    print("begun", flush=True)
    time.sleep(60)
places.Messages.batches = slow
main()
"""


def test_an_export_that_is_told_to_stop_leaves_no_file(url: str, tmp_path: Path) -> None:
    target = tmp_path / "exported" / "all.jsonl"
    target.parent.mkdir()
    command = [sys.executable, "-c", _SLOW, "export", "-o", str(target), "--store", url]
    with Program(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        assert os.listdir(target.parent)
        program.send_signal(signal.SIGTERM)
        _, errors = program.communicate(timeout=120)
    assert (program.returncode, errors) == (143, "")
    assert os.listdir(target.parent) == []


def test_two_exports_in_one_file_are_imported(url: str, tmp_path: Path) -> None:
    lines = run("export", "--store", url).output
    target = f"json:{tmp_path / 'other.json'}"
    assert run("import", "--store", target, stdin=lines + lines).status == 0
    cut = lines.split("\n", 1)[1]
    assert run("import", "--store", target, stdin=lines + cut).status == 1


def test_an_export_of_a_store_that_is_written_to_can_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, target = (f"sqlite:{tmp_path / name}.db" for name in ("source", "target"))

    def batches_beside_a_writer(self: Messages) -> Iterator[Batch]:
        for kind in self.kinds:
            yield from iter_records(self.opened, [kind], 500)
            write_beside(kind)

    def write_beside(kind: str) -> None:
        new = conversation(f"new-{kind}")
        with MessageStore.initialize(url) as store:
            store.store_conversation(new)
            for owner in ("c1", new.id):
                late = message(f"late-{kind}-{owner}", conversation_id=owner)
                store.store_turn(messages=[late], trace=trace(late.id, conversation_id=owner))

    with MessageStore.initialize(url) as store:
        store.store_conversation(conversation("c1"))
        store.store_message(message("m1"))
    monkeypatch.setattr(Messages, "batches", batches_beside_a_writer)
    exported = run("export", "--store", url).output
    monkeypatch.undo()

    assert "new-" not in exported
    imported = run("import", "--store", target, stdin=exported)
    assert imported.status == 0
    assert "1 conversation, 2 messages, 1 trace" in imported.errors


def test_on_postgresql_all_records_are_those_of_one_moment(new_postgres_url: str) -> None:
    with MessageStore.initialize(new_postgres_url) as store:
        store.store_conversation(conversation("c1"))
        store.store_message(message("m1"))
        read = []
        for kind, records in Messages(store).batches():
            read += [(kind, record.id) for record in records]
            store.store_turn(messages=[message(f"m-{kind}")], trace=trace(f"m-{kind}"))
    assert read == [("conversations", "c1"), ("messages", "m1")]


def test_the_question_of_rm_shows_escapes(tmp_path: Path) -> None:
    url = f"json:{tmp_path / 'messages.json'}"
    with MessageStore.initialize(url) as store:
        store.store_conversation(conversation(title="\x1b[2K\rnothing\u202e"))
    ran = run_program("rm", "c1", "--store", url, stdin="n\n")
    assert "\x1b" not in ran.errors
    assert "\\x1b[2K" in ran.errors
