"""Where the file of a JSON store is, and who may read it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation


def store_one(path: Path, name: str = "c1") -> None:
    with MessageStore.initialize({"path": str(path)}) as store:
        store.store_conversation(conversation(name))


def test_a_new_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    store_one(tmp_path / "messages.json")

    assert stat.S_IMODE((tmp_path / "messages.json").stat().st_mode) == 0o600


def test_an_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "messages.json"
    store_one(path)
    path.chmod(0o640)

    store_one(path, "c2")

    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    store_one(tmp_path / "messages.json")
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.json"
    link.symlink_to(tmp_path / "messages.json")

    store_one(link, "c2")

    assert link.is_symlink()
    with MessageStore.initialize({"path": str(tmp_path / "messages.json")}) as store:
        assert store.get_conversation_by_id("c2") is not None
    assert not (tmp_path / "elsewhere" / "link.json.tmp").exists()


def test_a_link_to_nothing_is_filled_where_it_points(tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "target.json")

    store_one(link)

    assert link.is_symlink()
    assert (tmp_path / "target.json").is_file()


def test_a_relative_path_means_the_folder_at_the_time_of_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    store = MessageStore.initialize({"path": "messages.json"})
    monkeypatch.chdir(tmp_path)

    with store:
        store.store_conversation(conversation("c1"))

    assert (tmp_path / "a" / "messages.json").is_file()
