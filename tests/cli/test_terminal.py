"""The program as a process: pipes, signals, terminals, completion, and what it never prints."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from rich.cells import cell_len

from jazzmine.cli.app import app
from jazzmine.sync import MessageStore
from tests.behaviour.samples import conversation, llm_call, message, trace
from tests.cli.program import COMMAND, environment, on_terminal, run, run_program
from tests.servers.programs import Program

COMMANDS = sorted(getattr(typer.main.get_command(app), "commands"))  # noqa: B009 - mypy


@pytest.fixture
def long_url(tmp_path: Path) -> str:
    """A store whose export is longer than a pipe holds."""
    url = f"json:{tmp_path / 'long.json'}?fsync=false"
    with MessageStore.initialize(url) as store:
        store.store_conversation(conversation())
        store.store_messages([message(f"m{n}", original_content="text " * 500) for n in range(400)])
    return url


# Help


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(command: str) -> None:
    ran = run(command, "--help", env={"COLUMNS": "200"})
    assert ran.status == 0
    assert re.search(r"Examples?: ", ran.output)
    assert f"jazzmine {command}" in ran.output


def test_the_help_names_every_command_and_the_statuses() -> None:
    ran = run("--help", env={"COLUMNS": "200"})
    for command in COMMANDS:
        assert f" {command} " in ran.output
    assert "Exit status" in ran.output


def test_an_option_without_a_value_shows_no_type() -> None:
    for command in ((), ("ls",)):
        assert "bool" not in run(*command, "--help", env={"COLUMNS": "200"}).output


def test_an_unknown_command_is_a_wrong_usage() -> None:
    assert run("sl").status == 2
    assert run("ls", "--unknown").status == 2


def test_the_installed_program_tells_its_version() -> None:
    program = Path(sys.executable).with_name("jazzmine")
    ran = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"jazzmine \d+\.\d+\.\d+\S*\n", ran.stdout)


def test_there_is_completion_for_a_shell() -> None:
    ran = run_program("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_JAZZMINE_COMPLETE" in ran.output


# Pipes and signals


def test_ctrl_c_ends_the_program_without_a_traceback(tmp_path: Path) -> None:
    command = [*COMMAND, "import", "--store", f"json:{tmp_path / 'new.json'}"]
    program = Program(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    assert program.stdin is not None
    assert program.stderr is not None
    with program.stdin, program.stderr:
        _wait_for(tmp_path / "new.json.lock", program)
        program.send_signal(signal.SIGINT)
        assert b"Traceback" not in program.stderr.read()
    assert program.wait(240) == 130


def _wait_for(path: Path, program: subprocess.Popen[bytes]) -> None:
    # The store is open when its first record is stored.
    assert program.stdin is not None
    given = (conversation(f"c{number}").model_dump_json() for number in range(1_001))
    program.stdin.write("".join(f'{{"conversation": {one}}}\n' for one in given).encode())
    program.stdin.flush()
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until
        assert program.poll() is None
        time.sleep(0.05)


# Terminals


def test_a_terminal_gets_colours_and_a_table(url: str) -> None:
    written = on_terminal("show", "c1", "--store", url)
    assert "\x1b[" in written
    assert "updated" in on_terminal("ls", "--store", url)
    assert "\t" not in on_terminal("ls", "--store", url)


def test_a_narrow_terminal_keeps_the_beginning_of_what_identifies_a_row(tmp_path: Path) -> None:
    url, name = f"json:{tmp_path / 'messages.json'}", "6f1c2a34-aaaa-bbbb-cccc-123456789abc"
    with MessageStore.initialize(url) as store:
        store.store_conversation(conversation(name, title="A trip to Lisbon " * 9))

    narrow = on_terminal("ls", "--store", url, COLUMNS="60").splitlines()[-1]
    assert (shown := re.search(r"6f1c2a34\S*…", narrow))
    assert "A t" in narrow
    assert len(narrow) <= 60
    assert name in run("show", shown[0], "--store", url).output
    assert name in run("ls", "--store", url).output


def test_long_notes_of_messages_and_turns_are_cut_on_a_terminal_too(tmp_path: Path) -> None:
    url = f"json:{tmp_path / 'messages.json'}"
    with MessageStore.initialize(url) as store:
        store.store_conversation(conversation(title="t" * 2_001, metadata={"k": "v" * 9_000}))
        store.store_message(message("m1", errors=["e" * 3_000], invoked_tools=["f" * 4_000]))
        store.store_turn_trace(trace("m1", errors=["g" * 5_000]))
    command = ["show", "c1", "--traces", "--store", url]
    cut = on_terminal(*command)
    for letter in "tvefg":
        assert letter * 2_001 not in cut
    assert cut.count("(--full)") == 5
    assert "t… 1 more character (--full)" in cut
    for whole in (on_terminal(*command, "--full"), run(*command).output):
        for text in ("t" * 2_001, "v" * 9_000, "e" * 3_000, "f" * 4_000, "g" * 5_000):
            assert text in whole


@pytest.fixture
def costly_url(tmp_path: Path) -> str:
    """A store whose traces have every column that `usage` and `traces` can show."""
    url = f"json:{tmp_path / 'messages.json'}"
    with MessageStore.initialize(url) as store:
        name = "6f1c2a34-aaaa-bbbb-cccc-123456789abc"
        user = "a-user-with-a-name-that-is-long"
        store.store_conversation(conversation(name, user_id=user, title="A trip to Lisbon " * 9))
        store.store_message(message("m1", conversation_id=name, user_id=user))
        call = llm_call(
            model="a-provider/large-model-20260131", cached_prompt_tokens=12_345, cost_usd=0.001234,
            prompt_tokens=123_456, completion_tokens=123_456, total_tokens=246_912,
        )  # fmt: skip
        given = trace(
            "m1", id="7" + name[1:], conversation_id=name, user_id=user, llm_calls=[call],
            total_prompt_tokens=123_456, total_completion_tokens=123_456, total_tokens=246_912,
            total_latency_ms=123_456, detected_intent="an_intent_with_a_name", total_co2_g=0.01234,
        )  # fmt: skip
        store.store_turn_trace(given)
    return url


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        (["ls"], ["20", "6f1c2a34"]),
        (["traces"], ["20", "7f1c2a34"]),
        (["usage", "--by", "model"], ["a-provide", "123456"]),
    ],
)
def test_a_table_fits_a_narrow_terminal_and_cuts_no_number(
    costly_url: str, command: list[str], kept: list[str]
) -> None:
    command = [*command, "--store", costly_url]
    lines = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(*command, COLUMNS="40")).splitlines()
    assert max(map(cell_len, lines)) <= 40
    assert len(lines) == 2
    assert all(text in lines[1] for text in kept)


@pytest.mark.parametrize("command", [["ls"], ["show", "c1"], ["export"]])
def test_stored_escapes_do_not_reach_a_terminal(url: str, command: list[str]) -> None:
    written = on_terminal(*command, "--store", url)
    assert "31malert" in written
    for escape in ("\x1b[31malert", "\x1b]0;owned", "\x9b2J", "\x07"):
        assert escape not in written


def test_progress_is_shown_on_a_terminal_alone(long_url: str, tmp_path: Path) -> None:
    target = f"json:{tmp_path / 'copy.json'}"
    piped = run_program("copy", long_url, target)
    assert piped.errors == ""
    assert "verifying" not in piped.output
    on_screen = on_terminal("copy", long_url, f"json:{tmp_path / 'other.json'}")
    assert "copying messages" in on_screen or "verifying messages" in on_screen
    # Up by a line, and erase it: the result takes its place.
    assert "\x1b[1A\x1b[2Kconversations " in on_screen


# Without the extra


def test_the_library_works_and_the_program_says_what_it_needs_without_the_extra(url: str) -> None:
    blocked = "import sys; sys.modules.update(typer=None, rich=None)\n"
    library = f"from jazzmine.sync import MessageStore; MessageStore.initialize({url!r}).close()"
    subprocess.run([sys.executable, "-c", blocked + library], check=True, env=environment())
    program = "from jazzmine.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", blocked + program], capture_output=True, text=True, env=environment()
    )
    assert ran.returncode == 2
    assert "the command line needs an extra: pip install 'jazzmine[cli]>=2.0'" in ran.stderr


# Streams


def test_streams_that_a_parent_has_closed_are_empty(url: str) -> None:
    command = shlex.join([sys.executable, "-m", "jazzmine", "--store", url])
    for name, status in (("ls", 0), ("import", 1)):
        closing = f"{command} {name} <&- >&- 2>&-"
        assert subprocess.run(["sh", "-c", closing], env=environment()).returncode == status


# Secrets


@pytest.mark.parametrize("command", [["ls"], ["doctor"], ["migrate", "--dry-run"], ["export"]])
@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("postgresql://me:sesame@127.0.0.1:1/db?timeout=1", 3),
        ("postgresql://me:sesame@h@127.0.0.1:1/db?timeout=1", 2),
        ("postgresql://me:sesame@[h/db", 2),
        ("mongodb://me:sesame@127.0.0.1:1/db?timeout=1", 3),
        ("mongodb://me:se/sesame@127.0.0.1:1/db", 2),
        ("nothing://me:sesame@h", 2),
    ],
)
def test_no_password_is_printed(command: list[str], url: str, status: int) -> None:
    ran = run_program(*command, JAZZMINE_MESSAGE_STORE=url)
    assert ran.status == status
    assert "sesame" not in ran.output + ran.errors
    assert "Traceback" not in ran.errors


@pytest.mark.parametrize(
    "command",
    ["{}", "ls {}", "show {}", "import {}", "ls --store json:{}", "doctor --store json:{}"],
)
def test_a_url_in_a_wrong_place_is_named_without_its_password(command: str, url: str) -> None:
    arguments = command.format("postgresql://me:se@sa/me@host/db").split()
    ran = run(*arguments, env={"JAZZMINE_MESSAGE_STORE": url})
    assert ran.status in (1, 2)
    assert "/me:…@host" in ran.output + ran.errors
    assert "se@sa" not in ran.output + ran.errors
