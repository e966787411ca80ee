"""A test run without a required program ends soon, says why, and leaves no files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = ("tests/backends/test_redis_rights.py", "tests/backends/test_redis_stored.py")


def test_a_server_that_does_not_start_ends_the_run_of_all_processes(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *FILES],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path), "JAZZMINE_REDIS_SERVER": "/bin/false"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 2, ran.stdout
    assert "the tests need redis-server, which does not start here" in ran.stdout
    assert len(ran.stdout.splitlines()) < 50, ran.stdout
    assert list(tmp_path.iterdir()) == []
