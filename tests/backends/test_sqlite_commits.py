"""Changes that an SQLite database commits together succeed and fail one by one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jazzmine import IntegrityError
from jazzmine.backends.sqlite.database import Database
from jazzmine.backends.sqlite.schema import MESSAGE_TABLES
from jazzmine.backends.sqlite.transaction import Write
from jazzmine.change import Change

ADD = """
INSERT INTO stored_conversations (id, user_id, agent_id, last_updated_at, body)
VALUES (?, 'u1', 'a1', 1, '{}')
"""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(str(tmp_path / "messages.db"), (MESSAGE_TABLES,), 5.0, "normal")
    database.open()
    yield database
    database.close()


def adding(name: str) -> Write:
    def add(connection: sqlite3.Connection) -> str:
        connection.execute(ADD, [name])
        return name

    return Change(add)


def failing(after: Callable[[sqlite3.Connection], object]) -> Write:
    def fail(connection: sqlite3.Connection) -> None:
        after(connection)
        raise IntegrityError("refused")

    return Change(fail)


def stored(database: Database) -> list[bytes]:
    query = "SELECT id FROM stored_conversations ORDER BY seq"
    return database.read(lambda connection, _: [row[0] for row in connection.execute(query)], 1)


def statements(database: Database, changes: list[Write]) -> list[str]:
    executed: list[str] = []
    connection = database._writer.driver()
    connection.set_trace_callback(executed.append)
    database.commit(changes)
    connection.set_trace_callback(None)
    return [statement.split()[0] for statement in executed]


def test_changes_are_applied_without_savepoints(database: Database) -> None:
    changes = [adding("one"), adding("two")]

    assert statements(database, changes) == ["BEGIN", "INSERT", "INSERT", "COMMIT"]
    assert [change.outcome() for change in changes] == ["one", "two"]


def test_a_change_that_fails_before_it_writes_is_not_applied_again(database: Database) -> None:
    refused = failing(lambda connection: None)

    assert statements(database, [adding("one"), refused, adding("two")]).count("BEGIN") == 1
    with pytest.raises(IntegrityError):
        refused.outcome()
    assert stored(database) == [b"one", b"two"]


@pytest.mark.parametrize("others", [0, 1, 3])
def test_a_change_that_fails_after_it_wrote_is_undone_without_the_others(
    database: Database, others: int
) -> None:
    names = [f"c{number}" for number in range(2 * others)]
    good = [adding(name) for name in names]
    refused = failing(lambda connection: connection.execute(ADD, ["refused"]))

    database.commit([*good[:others], refused, *good[others:]])

    with pytest.raises(IntegrityError):
        refused.outcome()
    assert [change.outcome() for change in good] == names
    assert stored(database) == [name.encode() for name in names]


def test_an_error_of_the_first_attempt_is_forgotten(database: Database) -> None:
    first = iter([True])

    def fail_once(connection: sqlite3.Connection) -> str:
        connection.execute(ADD, ["again"])
        if next(first, False):
            raise IntegrityError("only once")
        return "again"

    change: Write = Change(fail_once)
    database.commit([adding("one"), change])

    assert change.outcome() == "again"
    assert stored(database) == [b"one", b"again"]


def test_another_process_may_write_before_the_second_attempt(database: Database) -> None:
    begun: list[str] = []
    good = [adding("one"), adding("two")]
    refused = failing(lambda connection: connection.execute(ADD, ["refused"]))
    changes = [good[0], refused, good[1]]
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:

        def write_before_the_second(statement: str) -> None:
            begun.extend([statement] if statement.startswith("BEGIN") else [])
            if len(begun) == 2 and not other.in_transaction:
                other.execute("BEGIN IMMEDIATE")

        connection = database._writer.driver()
        connection.set_trace_callback(write_before_the_second)
        database.commit(changes)
        connection.set_trace_callback(None)
    claimed = [change.claimed for change in changes]
    database.commit(changes)

    assert claimed == [False, False, False]
    assert [change.outcome() for change in good] == ["one", "two"]
    with pytest.raises(IntegrityError):
        refused.outcome()
    assert stored(database) == [b"one", b"two"]


@pytest.mark.parametrize(("flushed", "level"), [(0, 1), (1, 2)])
def test_only_writes_that_need_not_be_flushed_are_committed_without_the_disk(
    tmp_path: Path, flushed: int, level: int
) -> None:
    def synchronous(connection: sqlite3.Connection) -> int:
        found: int = connection.execute("PRAGMA synchronous").fetchone()[0]
        return found

    database = Database(str(tmp_path / "full.db"), (MESSAGE_TABLES,), 5.0, "full")
    database.open()
    changes: list[Write] = [
        Change(synchronous, flushed=False),
        Change(synchronous, flushed=False),
    ]
    changes += [Change(synchronous) for _ in range(flushed)]
    database.commit(changes)
    later: Write = Change(synchronous)
    database.commit([later])
    database.close()

    assert {change.outcome() for change in changes} == {level}
    assert later.outcome() == 2


def test_a_commit_waits_for_a_process_that_has_the_file_for_itself(database: Database) -> None:
    database._writer.close()  # as before a fork
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")  # as while it recovers the -wal file
        waiting, purging = adding("c1"), Change[sqlite3.Connection](lambda connection: None)
        database.commit([waiting])
        database.purge([purging])
        assert not waiting.claimed
        assert not purging.claimed
    database.commit([waiting])
    database.purge([purging])
    assert purging.claimed
    assert stored(database) == [b"c1"]
