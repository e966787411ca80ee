"""One JSON file that several users write: no write takes away the access of another user."""

from __future__ import annotations

import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation
from tests.servers.programs import run_python

ALICE, BOB, TEAM = 64_101, 64_102, 64_103

# Modules are imported as root, because the other users may not be able to read the library.
STORE_AS_USER = """
import os, sys
from jazzmine.sync.message_store import Conversation, MessageStore

def store(path, name):
    with MessageStore.initialize({"path": path}) as opened:
        opened.store_conversation(Conversation(
            id=name, user_id="u", agent_id="a", title="", created_at=1, last_updated_at=1))

path, name, umask, user, *groups = sys.argv[1:]
store(path + ".warm", "c0")
os.umask(int(umask))
os.setgroups([int(group) for group in groups])
os.setgid(int(user))
os.setuid(int(user))
try:
    store(path, name)
except OSError as error:
    print(type(error).__name__, error)
else:
    print("stored")
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for other users")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own folder is not."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "messages.json"


def store(path: Path, name: str) -> None:
    with MessageStore.initialize({"path": str(path)}) as opened:
        opened.store_conversation(conversation(name))


def store_as(path: Path, name: str, user: int, *groups: int, umask: int = 0o022) -> str:
    """Store a conversation as a user, whose own group has the user's number."""
    with tempfile.TemporaryDirectory() as private:
        warm = Path(private) / "messages.json"
        script = STORE_AS_USER.replace('path + ".warm"', repr(str(warm)))
        arguments = [str(path), name, str(umask), str(user), *map(str, groups)]
        ran = run_python(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
        )
    return str(ran.stdout).strip()


def share(folder: Path, group: int, mode: int) -> None:
    os.chown(folder, -1, group)
    folder.chmod(mode)


def shared_file(path: Path, owner: int, group: int, mode: int) -> None:
    """A file with the conversation "c1", and no lock file beside it."""
    store(path, "c1")
    os.unlink(f"{path}.lock")
    os.chown(path, owner, group)
    path.chmod(mode)


def lock_of(path: Path) -> Path:
    return Path(f"{path}.lock")


def access(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_gid, stat.S_IMODE(status.st_mode)


def ids(path: Path) -> list[str]:
    with MessageStore.initialize({"path": str(path)}) as opened:
        return sorted(each.id for each in opened.get_conversations_by_user_id("u"))


@needs_root
@pytest.mark.parametrize("folder_mode", [0o2770, 0o770], ids=oct)
@pytest.mark.parametrize("umask", [0o077, 0o002], ids=oct)
def test_the_members_of_a_group_take_turns_to_write(
    folder: Path, path: Path, folder_mode: int, umask: int
) -> None:
    share(folder, TEAM, folder_mode)
    shared_file(path, ALICE, TEAM, 0o660)

    turns = [
        store_as(path, f"c{number}", user, TEAM, umask=umask)
        for number, user in enumerate([BOB, ALICE, BOB, ALICE])
    ]

    assert turns == ["stored"] * 4
    assert access(path) == access(lock_of(path)) == (TEAM, 0o660)
    assert {f"c{number}" for number in range(4)} <= set(ids(path))


@needs_root
def test_a_write_that_would_lock_the_group_out_is_refused_before_it_begins(
    folder: Path, path: Path
) -> None:
    share(folder, ALICE, 0o777)
    shared_file(path, ALICE, TEAM, 0o660)
    before = path.read_bytes()

    outcome = store_as(path, "c2", ALICE)

    assert "PermissionError" in outcome
    assert f"its group {TEAM} would lose it" in outcome
    assert str(path) in outcome
    assert path.read_bytes() == before
    assert access(path) == (TEAM, 0o660)
    assert os.listdir(folder) == [path.name]


@needs_root
def test_a_group_without_rights_of_its_own_holds_up_no_write(folder: Path, path: Path) -> None:
    share(folder, ALICE, 0o777)
    shared_file(path, ALICE, TEAM, 0o644)

    assert store_as(path, "c2", ALICE) == "stored"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@needs_root
def test_the_folder_of_a_group_lets_its_owner_write_without_being_a_member(
    folder: Path, path: Path
) -> None:
    share(folder, TEAM, 0o2777)
    shared_file(path, ALICE, TEAM, 0o660)

    assert store_as(path, "c2", ALICE) == "stored"
    assert access(path) == access(lock_of(path)) == (TEAM, 0o660)


@needs_root
def test_a_file_that_a_user_may_only_read_is_not_replaced(folder: Path, path: Path) -> None:
    share(folder, TEAM, 0o777)
    shared_file(path, ALICE, TEAM, 0o644)
    before = path.read_bytes()

    outcome = store_as(path, "c2", BOB, TEAM)

    assert "PermissionError" in outcome
    assert path.read_bytes() == before
    assert path.stat().st_uid == ALICE
    assert os.listdir(folder) == [path.name]


@needs_root
def test_the_owner_may_replace_a_file_that_is_read_only(folder: Path, path: Path) -> None:
    share(folder, ALICE, 0o777)
    shared_file(path, ALICE, ALICE, 0o440)

    assert [store_as(path, name, ALICE) for name in ("c2", "c3")] == ["stored"] * 2
    assert access(path) == (ALICE, 0o440)


@needs_root
def test_a_lock_file_that_excludes_the_group_is_named_and_corrected_by_its_owner(
    folder: Path, path: Path
) -> None:
    share(folder, TEAM, 0o2770)
    assert store_as(path, "c1", ALICE, TEAM) == "stored"
    assert access(lock_of(path)) == (TEAM, 0o600)
    path.chmod(0o660)

    outcome = store_as(path, "c2", BOB, TEAM)
    corrected = store_as(path, "c3", ALICE, TEAM)

    assert "PermissionError" in outcome
    assert str(lock_of(path)) in outcome
    assert "the same group and mode" in outcome
    assert corrected == "stored"
    assert access(lock_of(path)) == (TEAM, 0o660)
    assert store_as(path, "c4", BOB, TEAM) == "stored"


@needs_root
def test_root_leaves_a_file_and_its_lock_to_their_user(folder: Path, path: Path) -> None:
    share(folder, ALICE, 0o700)
    os.chown(folder, ALICE, -1)
    shared_file(path, ALICE, ALICE, 0o600)

    store(path, "c2")

    assert (path.stat().st_uid, lock_of(path).stat().st_uid) == (ALICE, ALICE)
    assert store_as(path, "c3", ALICE) == "stored"


@needs_root
def test_a_file_that_root_cannot_give_away_in_a_container_is_refused(
    folder: Path, path: Path
) -> None:
    # In the namespace TEAM has no number: even its root cannot give a file to TEAM.
    inside = ["unshare", "--user", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*inside, "true"]).returncode:
        pytest.skip("this machine allows no user namespace")
    store(path, "c1")
    os.chown(path, -1, TEAM)
    path.chmod(0o660)
    before = path.read_bytes()
    script = (
        "import sys; from tests.backends.test_json_shared_by_users import store, Path;"
        "store(Path(sys.argv[1]), 'c2')"
    )

    ran = subprocess.run(
        [*inside, sys.executable, "-c", script, str(path)], capture_output=True, text=True
    )

    assert "PermissionError" in ran.stderr
    assert "would lose it" in ran.stderr
    assert path.read_bytes() == before
    assert access(path) == (TEAM, 0o660)


# The rights of one user alone.


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o660, 0o664, 0o666], ids=oct)
def test_the_lock_has_the_mode_of_its_file(path: Path, mode: int) -> None:
    store(path, "c1")
    path.chmod(mode)
    before = os.umask(0o077)
    try:
        store(path, "c2")
    finally:
        os.umask(before)

    assert access(path)[1] == access(lock_of(path))[1] == mode


def test_the_lock_of_an_open_store_follows_its_files_mode(path: Path) -> None:
    with MessageStore.initialize({"path": str(path)}) as opened:
        opened.store_conversation(conversation("c1"))
        assert access(lock_of(path))[1] == 0o600
        path.chmod(0o660)

        opened.store_conversation(conversation("c2"))

    assert access(lock_of(path))[1] == 0o660


@pytest.mark.skipif(
    os.geteuid() != 0 and len(set(os.getgroups()) | {os.getegid()}) < 2,
    reason="this user is in one group only",
)
def test_a_file_keeps_a_group_that_is_not_its_writers_first(path: Path) -> None:
    store(path, "c1")
    group = TEAM if os.geteuid() == 0 else (set(os.getgroups()) - {os.getegid()}).pop()
    os.chown(path, -1, group)
    path.chmod(0o660)

    store(path, "c2")

    assert access(path) == access(lock_of(path)) == (group, 0o660)


# An access list: its version, then each entry's tag, rights and number.
_LIST = "system.posix_acl_access"
_NOBODY = 0xFFFFFFFF
_ENTRIES = [(1, 6, _NOBODY), (2, 6, BOB), (4, 6, _NOBODY), (16, 6, _NOBODY), (32, 0, _NOBODY)]


def set_list(path: Path, name: str) -> bytes:
    entries = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in _ENTRIES)
    try:
        os.setxattr(path, name, entries)
    except OSError as error:
        pytest.skip(f"this file system keeps no access lists: {error}")
    return entries


def test_a_file_and_its_lock_keep_an_access_list(path: Path) -> None:
    store(path, "c1")
    entries = set_list(path, _LIST)

    store(path, "c2")

    assert os.getxattr(path, _LIST) == os.getxattr(lock_of(path), _LIST) == entries
    assert access(path)[1] == 0o660


def test_a_file_without_an_access_list_gets_none_from_its_folder(path: Path) -> None:
    store(path, "c1")
    path.chmod(0o660)
    set_list(path.parent, "system.posix_acl_default")

    store(path, "c2")

    with pytest.raises(OSError):
        os.getxattr(path, _LIST)
    assert access(path)[1] == 0o660


@needs_root
def test_an_access_list_lets_a_user_write_without_a_group(folder: Path, path: Path) -> None:
    share(folder, TEAM, 0o2777)
    shared_file(path, ALICE, TEAM, 0o660)
    entries = set_list(path, _LIST)

    assert store_as(path, "c2", BOB) == "stored"
    assert store_as(path, "c3", ALICE, TEAM) == "stored"
    assert os.getxattr(path, _LIST) == os.getxattr(lock_of(path), _LIST) == entries
