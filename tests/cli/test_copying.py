"""`copy` between back ends: complete, in order, resumable, verified."""

from __future__ import annotations

import itertools
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from jazzmine.cli import places
from jazzmine.cli.places import Batch, Messages
from jazzmine.sync import MessageStore
from tests.behaviour.samples import NOW, conversation, message, trace
from tests.cli.conftest import fill
from tests.cli.program import all_records, environment, run, stopped_copy

TARGETS = ["json", "sqlite", "new_postgres_url", "new_mongodb_url"]


def target_of(request: pytest.FixtureRequest, name: str, tmp_path: Path) -> str:
    if name in ("json", "sqlite"):
        return f"{name}:{tmp_path / name}"
    return str(request.getfixturevalue(name))


def fill_with_ties(store: MessageStore, messages: int = 60) -> None:
    """Store messages of a few conversations and users at a few times, in a random order."""
    chance = random.Random(4)
    for number in range(6):
        user, agent = f"u{number % 2}", f"a{number % 2}"
        store.store_conversation(conversation(f"c{number}", user_id=user, agent_id=agent))
    for number in range(messages):
        owner = f"c{chance.randrange(6)}"
        given = {"conversation_id": owner, "timestamp": NOW + chance.randrange(3)}
        store.store_message(message(f"m{number:04}", user_id=f"u{number % 2}", **given))
    for number in chance.sample(range(messages), messages // 2):
        given = {"started_at_ms": NOW + chance.randrange(2), "turn_number": chance.randrange(3)}
        said = store.get_message_by_id(f"m{number:04}")
        assert said is not None
        given["conversation_id"] = said.conversation_id
        store.store_turn_trace(trace(said.id, agent_id=f"a{number % 2}", **given))


def listings(url: str) -> list[Any]:
    """Return everything that the public listings say."""
    with MessageStore.initialize(url) as store:
        users, agents = ["u0", "u1", "u2"], ["a0", "a1", "a2"]
        conversations = list(map(store.get_conversations_by_user_id, users))
        ids = [one.id for found in conversations for one in found]
        return [
            conversations,
            list(map(store.get_conversations_by_agent_id, agents)),
            list(map(store.get_messages_by_user_id, users)),
            list(map(store.get_messages_by_conversation_id, ids)),
            list(map(store.get_turn_traces_by_conversation_id, ids)),
            list(map(store.get_turn_traces_by_agent_id, agents)),
        ]


# Copies


@pytest.mark.parametrize(("first", "second"), list(itertools.pairwise([*TARGETS, TARGETS[0]])))
def test_a_copy_and_a_copy_of_it_list_what_the_original_lists(
    request: pytest.FixtureRequest, tmp_path: Path, first: str, second: str
) -> None:
    source = f"json:{tmp_path / 'source.json'}?fsync=false"
    with MessageStore.initialize(source) as store:
        fill(store)
        fill_with_ties(store)
    before = source
    for name in (first, second):
        target = target_of(request, name, tmp_path)
        ran = run("copy", before, target)
        assert (ran.status, ran.output.count("equal")) == (0, 4), ran
        assert listings(target) == listings(source)
        assert all_records(target) == all_records(source)
        before = target


def test_what_is_printed_are_the_counts_and_checksums_of_both_sides(
    url: str, tmp_path: Path
) -> None:
    rows = [
        row.split()
        for row in run("copy", url, f"json:{tmp_path / 'target.json'}").output.splitlines()
    ]
    assert [row[0] for row in rows] == [*Messages.kinds, "verified:"]
    assert [row[2:4] for row in rows[:3]] == [row[5:7] for row in rows[:3]]
    assert [row[2] for row in rows[:3]] == ["3", "5", "3"]


def test_a_copy_may_be_repeated(url: str, tmp_path: Path) -> None:
    target = f"json:{tmp_path / 'target.json'}"
    run("copy", url, target)
    again = run("copy", url, target)
    assert again.status == 0
    assert "already there: 3 conversations, 5 messages, 3 traces" in again.errors


# Refusals


def test_a_target_that_holds_anything_else_is_refused_and_left_alone(
    url: str, tmp_path: Path
) -> None:
    target = f"json:{tmp_path / 'target.json'}"
    with MessageStore.initialize(target) as store:
        store.store_conversation(conversation("other"))
    ran = run("copy", url, target)
    assert ran.status == 1
    assert "--merge" in ran.errors
    assert [len(records) for records in all_records(target).values()] == [1, 0, 0]


def test_a_target_that_was_used_since_is_refused(url: str, tmp_path: Path) -> None:
    target = f"json:{tmp_path / 'target.json'}"
    run("copy", url, target)
    with MessageStore.initialize(target) as store:
        store.flag_message("z")
    assert run("copy", url, target).status == 1
    with MessageStore.initialize(target) as store:
        flagged = store.get_message_by_id("z")
    assert flagged is not None
    assert flagged.is_flagged


def test_merging_adds_to_what_is_there(url: str, tmp_path: Path) -> None:
    target = f"json:{tmp_path / 'target.json'}"
    with MessageStore.initialize(target) as store:
        store.store_conversation(conversation("other", user_id="u9"))
        store.store_conversation(conversation("c1", title="old"))
        store.store_message(message("z", original_content="old"))
    ran = run("copy", "--merge", url, target)
    assert (ran.status, ran.output.count("equal")) == (0, 4)
    with MessageStore.initialize(target) as store, MessageStore.initialize(url) as source:
        assert store.get_conversation_by_id("other") is not None
        wanted = source.get_messages_by_conversation_id("c1")
        assert store.get_messages_by_conversation_id("c1") == wanted


def test_a_source_that_is_not_there_makes_no_target(tmp_path: Path) -> None:
    gone = tmp_path / "gone.json"
    ran = run("copy", f"json:{gone}", f"json:{tmp_path / 'target.json'}")
    text = f"FROM is not there: no file {gone}. Correct the path, or create a store there with"
    assert (ran.status, ran.errors) == (1, f"jazzmine: {text} `jazzmine migrate`\n")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_pair_of_stores_is_a_wrong_usage(url: str) -> None:
    assert run("copy", url, url).status == 2
    assert run("copy", "--long-term", "json:a.json", "sqlite:b.db").status == 2


# The proof


@pytest.mark.parametrize("mistake", ["lost", "swapped", "changed"])
def test_a_copy_that_differs_is_noticed(
    monkeypatch: pytest.MonkeyPatch, url: str, tmp_path: Path, mistake: str
) -> None:
    read, reads = Messages.batches, list[int]()

    def read_back_with_a_mistake(place: Messages) -> Iterator[Batch]:
        for kind, records in read(place):
            if kind == "messages":
                reads.append(len(records))
            if kind == "messages" and len(reads) == 2:  # the source was read before
                if mistake == "lost":
                    del records[2]
                elif mistake == "swapped":
                    records[0], records[1] = records[1], records[0]
                else:
                    records[3] = records[3].model_copy(update={"metadata": {"changed": True}})
            yield kind, records

    monkeypatch.setattr(Messages, "batches", read_back_with_a_mistake)
    ran = run("copy", url, f"json:{tmp_path / 'target.json'}")
    assert ran.status == 1
    assert ran.output.count("DIFFERENT") == 1
    assert "verified" not in ran.output


# Interruptions and size


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_copy_that_was_ended_goes_on_with_the_same_command(
    tmp_path: Path, end: signal.Signals
) -> None:
    source, target = f"sqlite:{tmp_path / 'source.db'}", tmp_path / "target.db"
    with MessageStore.initialize(source) as store:
        store.store_conversation(conversation("c1"))
        store.store_messages([message(f"m{number}") for number in range(8_000)])
    status, errors = stopped_copy(source, target=target, end=end)
    if end == signal.SIGINT:
        assert status == 130
        assert "the same command goes on where this one stopped" in errors
        assert "Traceback" not in errors

    ran = run("copy", source, f"sqlite:{target}")

    assert ran.status == 0, ran
    assert "already there: 1 conversation, " in ran.errors
    assert all_records(f"sqlite:{target}") == all_records(source)


_MEASURED = """
import resource, sys
from jazzmine.cli.app import app
try:
    app(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_the_memory_of_a_copy_does_not_grow_with_the_store(
    new_postgres_url: str, tmp_path: Path
) -> None:
    def kilobytes() -> int:
        arguments = ["copy", "--merge", new_postgres_url, f"sqlite:{tmp_path / 'target.db'}"]
        command = [sys.executable, "-c", _MEASURED, *arguments]
        ran = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
        return int(ran.stdout.split()[-1])

    with MessageStore.initialize(new_postgres_url) as store:
        store.store_conversation(conversation("c1"))
        for number in range(12):
            if number == 2:
                before = kilobytes()
            # 4 MB each time, and several times that as objects
            new = (message(f"m{number}-{n}", original_content="text " * 1_600) for n in range(500))
            store.store_messages(new)
    assert kilobytes() < before + 20_000


# Records that cannot be read, or lack what they refer to


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A database in which another program has changed a message to one that cannot be read."""
    file = tmp_path / "old.db"
    with MessageStore.initialize(f"sqlite:{file}") as store:
        store.store_conversation(conversation("c1"))
        store.store_messages([message("m1"), message("m2")])
    changed_by_sql(file, "body = json_set(body, '$.role', 'robot') WHERE id = 'm1'")
    return file


def changed_by_sql(file: Path, change: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"UPDATE stored_messages SET {change}")
        connection.commit()


def test_a_copy_or_an_export_without_an_unreadable_record_says_so(
    old: Path, tmp_path: Path
) -> None:
    missing = "records that cannot be read were left out: 1, named above"
    copied = run("copy", f"sqlite:{old}", f"sqlite:{tmp_path / 'new.db'}")
    assert (copied.status, copied.output.count("equal")) == (1, 4)
    assert missing in copied.errors
    assert "'m1'" in copied.errors
    exported = run("export", "--store", f"sqlite:{old}")
    assert (exported.status, len(exported.output.splitlines())) == (1, 3)
    assert missing in exported.errors


def test_a_message_without_its_conversation_is_named_with_what_to_do(
    old: Path, tmp_path: Path
) -> None:
    moved = "conversation_id = 'gone', body = json_set(body, '$.conversation_id', 'gone')"
    changed_by_sql(old, f"{moved} WHERE id = 'm2'")
    ran = run("copy", f"sqlite:{old}", f"sqlite:{tmp_path / 'new.db'}")
    assert ran.status == 1
    assert "message 'm2': its conversation 'gone' is not stored" in ran.errors
    assert "FROM lacks a record" in ran.errors


def test_a_record_that_is_too_large_for_the_target_is_named(
    tmp_path: Path, new_postgres_url: str
) -> None:
    source = f"sqlite:{tmp_path / 'a.db'}"
    with MessageStore.initialize(source) as store:
        for number, user in enumerate(("u1", token_hex(5_000), "u3")):
            store.store_conversation(conversation(f"c{number}", user_id=user))

    ran = run("copy", source, new_postgres_url)

    assert ran.status == 1
    assert "'c1' of the conversations: PostgreSQL can't hold this" in ran.errors


def test_a_json_file_is_written_more_and_more_rarely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, sizes = f"sqlite:{tmp_path / 'source.db'}", list[int]()
    with MessageStore.initialize(source) as store:
        store.store_conversation(conversation("c1"))
        store.store_messages([message(f"m{number}") for number in range(4_000)])
    write = places.Messages.store

    def noted(place: places.Messages, kind: places.Sort, records: Sequence[Any]) -> None:
        sizes.append(len(records))
        write(place, kind, records)

    monkeypatch.setattr(places.Messages, "store", noted)
    assert run("copy", source, f"json:{tmp_path / 'target.json'}").status == 0
    # A conversation, and then each time as many messages as there are.
    assert sizes == [1, 1000, 1000, 2000]
