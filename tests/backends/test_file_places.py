"""Where the file of an embedded store is, what it is called, and who may read it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jazzmine.errors import ConfigurationError
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation


@pytest.fixture(params=["messages.db", "messages.json"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def store_one(path: Path, name: str = "c1") -> dict[str, int]:
    """Store a conversation; return the modes of the store's files by their names."""
    with MessageStore.initialize(path) as store:
        store.store_conversation(conversation(name))
        files = [file for file in path.parent.iterdir() if file.suffix != ".lock"]
        return {file.name: stat.S_IMODE(file.stat().st_mode) for file in files}


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_new_files_are_their_owners_alone(path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        modes = store_one(path)
    finally:
        os.umask(before)

    beside = ["", "-shm", "-wal"] if path.suffix == ".db" else [""]
    assert modes == {f"{path.name}{suffix}": 0o600 for suffix in beside}


def test_an_existing_file_keeps_its_mode_and_its_neighbours_get_it(path: Path) -> None:
    store_one(path)
    path.chmod(0o660)

    assert set(store_one(path, "c2").values()) == {0o660}


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_a_write_by_root_leaves_the_files_to_their_owner(path: Path) -> None:
    store_one(path)
    os.chown(path, 1234, 5678)

    with MessageStore.initialize(path) as store:
        store.store_conversation(conversation("c2"))
        files = [file for file in path.parent.iterdir() if file.suffix != ".lock"]
        assert {(file.stat().st_uid, file.stat().st_gid) for file in files} == {(1234, 5678)}


@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_stays_one(path: Path, tmp_path: Path, exists: bool) -> None:
    (tmp_path / "data").mkdir()
    real = tmp_path / "data" / f"real{path.suffix}"
    if exists:
        store_one(real)
    path.symlink_to(real)

    store_one(path, "c2")

    assert path.is_symlink()
    assert not [file for file in tmp_path.iterdir() if file.name not in ("data", path.name)]
    with MessageStore.initialize(real) as store:
        assert store.get_conversation_by_id("c2") is not None


def test_a_relative_path_means_the_folder_at_the_time_of_opening(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    store = MessageStore.initialize(path.name)
    monkeypatch.chdir(tmp_path)

    with store:
        store.store_conversation(conversation("c1"))

    assert (tmp_path / "a" / path.name).is_file()


@pytest.mark.parametrize("stem", ["with space", "a?b#c%20", "ü\n", "\udcff"])
def test_any_file_name_can_be_used(path: Path, stem: str) -> None:
    named = path.with_name(f"{stem}{path.suffix}")
    store_one(named)

    assert [name for name in os.listdir(path.parent) if not name.endswith(".lock")] == [named.name]


def test_a_folder_or_a_pipe_is_refused(path: Path) -> None:
    path.mkdir()
    with pytest.raises(IsADirectoryError, match=path.name):
        MessageStore.initialize(path)
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        MessageStore.initialize(path)


def test_a_path_with_a_tilde_is_no_home_folder(path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="~ is not expanded"):
        MessageStore.initialize(Path("~") / path.name)


# A file that is known by two names: the files beside it would not be shared

MOUNTED_ALONE = """
import subprocess, sys
from jazzmine.errors import ConfigurationError
from jazzmine.sync.message_store import MessageStore

inside, outside, url = sys.argv[1:]
subprocess.run(["mount", "--bind", outside, inside], check=True)
try:
    MessageStore.initialize(url)
except ConfigurationError as error:
    print(error)
"""


def test_a_database_with_a_hard_link_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    MessageStore.initialize(f"sqlite:{path}").close()
    os.link(path, tmp_path / "other.db")
    before = path.read_bytes()

    with pytest.raises(ConfigurationError, match="hard link"):
        MessageStore.initialize(f"sqlite:{path}")

    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["agent.db", "other.db"]


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode
    != 0,
    reason="needs the right to mount (root, on Linux)",
)
@pytest.mark.parametrize("scheme", ["sqlite", "json"])
def test_a_file_that_is_mounted_alone_is_refused(tmp_path: Path, scheme: str) -> None:
    outside, inside = tmp_path / "outside" / f"agent.{scheme}", tmp_path / f"agent.{scheme}"
    outside.parent.mkdir()
    with MessageStore.initialize(f"{scheme}:{outside}") as store:
        store.store_conversation(conversation("c1"))
    inside.touch()

    script = [sys.executable, "-c", MOUNTED_ALONE, str(inside), str(outside), f"{scheme}:{inside}"]
    ended = subprocess.run(
        ["unshare", "--mount", *script], capture_output=True, text=True, timeout=60, check=True
    )

    assert "mount the folder" in ended.stdout
