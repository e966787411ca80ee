"""`doctor` on files, keys and vectors that are wrong in one way each."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jazzmine.sync import LongTermMemoryStore, MemoryItem, MessageStore
from tests.behaviour.samples import conversation, message
from tests.cli.program import diagnosed, one_found
from tests.encryption.keys import FIRST, as_text


def test_a_file_that_is_not_there_is_noticed(tmp_path: Path) -> None:
    status, found = one_found("--store", f"json:{tmp_path / 'gone.json'}")
    assert (status, found["level"]) == (1, "error")
    assert os.listdir(tmp_path) == []


def test_a_damaged_file_is_noticed(url: str, path: str) -> None:
    Path(path).write_text('{"conversations": [')
    status, found = one_found("--store", url)
    assert (status, found["level"]) == (1, "error")
    assert "line 1" in found["text"]
    assert "restore the file" in found["cure"]


def test_the_cure_of_a_file_is_not_that_of_a_server(tmp_path: Path, path: str) -> None:
    for place, said in ((f"sqlite:{tmp_path}", "Is a"), (f"json:{path}/below.json", "Not a")):
        found = one_found("--store", place)[1]
        assert f"{said} directory" in found["text"]
        assert "correct the path" in found["cure"]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    database = tmp_path / "all.db"
    with MessageStore.initialize(database) as store:
        store.store_conversation(conversation("c1"))
        store.store_messages([message(f"m{n}", original_content="x" * 900) for n in range(99)])
    return database


@pytest.mark.parametrize(
    "dropped", ["INDEX idx_msg_conv", "VIEW messages", "TRIGGER keep_message_number"]
)
def test_what_a_database_lacks_comes_with_the_statement_that_makes_it(
    database: Path, dropped: str
) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"DROP {dropped}")
        status, found = one_found("--store", f"sqlite:{database}")
        assert (status, found["level"]) == (1, "error")
        assert dropped.split()[1] in found["text"]
        connection.execute(found["cure"])
    assert diagnosed("--store", f"sqlite:{database}") == (0, [])


def test_a_missing_table_and_damaged_pages_are_noticed(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DROP TABLE stored_turn_traces")
    assert "stored_turn_traces" in one_found("--store", f"sqlite:{database}")[1]["text"]
    size = database.stat().st_size
    with database.open("r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(bytes(4096))
    assert "damaged" in diagnosed("--store", f"sqlite:{database}")[1][-1]["text"]


@pytest.mark.parametrize("end", ["", "-wal", "-shm", ".lock"])
def test_a_file_that_may_not_be_written_is_named(
    database: Path, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbidden = f"{database}{end}"
    Path(forbidden).touch()
    monkeypatch.setattr(os, "access", lambda file, mode: file != forbidden)
    found = diagnosed("--store", f"sqlite:{database}")[1][0]
    assert f"{forbidden} may not be written" in found["text"]
    assert f"chmod u+w {forbidden}" in found["cure"]


def test_a_file_that_cannot_be_read_is_named_without_what_it_holds(url: str, path: str) -> None:
    stored = Path(path).read_text()
    Path(path).write_text(stored.replace('"id":"z"', '"id":["sesame"]', 1))
    (found,) = diagnosed("--store", url)[1]
    assert "id: Input should be a valid string" in found["text"]
    for private in ("sesame", "pydantic", "\n"):
        assert private not in found["text"]


def test_a_file_that_all_may_read_is_noticed(url: str, path: str) -> None:
    os.chmod(path, 0o644)
    status, found = one_found("--store", url)
    assert (status, found["cure"]) == (0, f"chmod 600 {os.path.realpath(path)}")


def test_vectors_of_different_lengths_are_noticed(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'items.db'}"
    embed = iter([[[1.0] * 2], [[1.0] * 3]])
    with LongTermMemoryStore.initialize(url, embed=lambda texts: next(embed)) as items:
        for key in "ab":
            items.put(MemoryItem(namespace=("n",), key=key, value={"a": "b"}))
    status, found = one_found("--items", url)
    assert (status, found["level"]) == (0, "warning")
    assert "(1 of 2, 1 of 3)" in found["text"]


def test_encrypted_stores_without_keys_are_noticed(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'all.db'}"
    encrypted = {"storage": "sqlite", "path": tmp_path / "all.db", "encryption": as_text(FIRST)}
    with (
        MessageStore.initialize(encrypted) as store,
        LongTermMemoryStore.initialize(encrypted) as items,
    ):
        store.store_conversation(conversation("c1"))
        items.put(MemoryItem(namespace=("n",), key="k", value={"a": 1}))
    status, found = diagnosed("--store", url, "--items", url)
    assert status == 1
    assert [each["store"] for each in found] == ["message store", "long-term memory"]
    assert all("JAZZMINE_ENCRYPTION" in each["cure"] for each in found)


def test_plain_values_of_an_encrypted_store_are_noticed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAZZMINE_ENCRYPTION", as_text(FIRST))
    status, [found] = diagnosed("--store", url)
    assert (status, found["level"]) == (1, "error")
    assert "jazzmine rekey" in found["cure"]
