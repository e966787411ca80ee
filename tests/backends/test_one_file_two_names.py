"""A file that is known by two names is refused, because the files beside it would not be shared."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jazzmine.errors import ConfigurationError
from jazzmine.sync.message_store import MessageStore
from tests.behaviour.samples import conversation

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
