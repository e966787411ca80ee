"""Create the two virtual environments of the benchmarks, again if they are out of date.

Both libraries are imported as `jazzmine`, so each has an environment of its own. Both get the same
pydantic, so that a difference between them is never a difference between two versions of it.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / ".venv-bench"
PREDECESSOR = ROOT / ".venv-bench-predecessor"
PREDECESSOR_SOURCE = PREDECESSOR / "jazzmine-source"

EXTRAS = "all,test"
"""The extras of the library that are installed: every driver, and the servers of the tests."""

BESIDE = (
    "openai-agents[sqlalchemy]>=0.24",
    "aiosqlite",
    "strands-agents",
    "agent-framework-core",
    "google-adk>=2.7",
    "asyncpg",
    "langgraph>=1.2",
    "langgraph-checkpoint-postgres",
    "rank_bm25",
)
"""What is measured beside the library, in its environment: frameworks' sessions, a ranking."""

PREDECESSOR_VERSION = "0.1.42"
PREDECESSOR_NEEDS = ("asyncpg", "motor", "redis")
"""The imports of its two stores; its other modules (with torch and more) are never loaded."""


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def main(arguments: list[str]) -> None:
    """Create the missing environments; a self-check needs only that of the predecessor."""
    if "--self-check" in arguments:
        if not python_of(PREDECESSOR).exists():
            make_predecessor("pydantic")
        return
    make_ours()
    make_predecessor(f"pydantic=={_pydantic_version()}")


def make_ours() -> None:
    stamp = _digest(sys.version, EXTRAS, *BESIDE, (ROOT / "pyproject.toml").read_text())
    if _is_fresh(OURS, stamp):
        return
    _new_environment(OURS)
    _pip(OURS, "install", "--editable", f"{ROOT}[{EXTRAS}]", *BESIDE)
    _seal(OURS, stamp)


def make_predecessor(pydantic: str) -> None:
    stamp = _digest(sys.version, PREDECESSOR_VERSION, pydantic, *PREDECESSOR_NEEDS)
    with _alone(PREDECESSOR):
        if not _is_fresh(PREDECESSOR, stamp):
            _make_predecessor(pydantic, stamp)


def _make_predecessor(pydantic: str, stamp: str) -> None:
    _new_environment(PREDECESSOR)
    _pip(PREDECESSOR, "install", pydantic, *PREDECESSOR_NEEDS)
    with tempfile.TemporaryDirectory(dir=PREDECESSOR) as folder:
        wanted = f"jazzmine=={PREDECESSOR_VERSION}"
        _pip(PREDECESSOR, "download", "--no-deps", "--only-binary=:all:", "--dest", folder, wanted)
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            wheel.extractall(PREDECESSOR_SOURCE)
    _seal(PREDECESSOR, stamp)


@contextmanager
def _alone(environment: Path) -> Iterator[None]:
    """Hold a lock, so that no other process creates the same environment at the same time."""
    with open(f"{environment}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _new_environment(environment: Path) -> None:
    print(f"making {environment.name} (once)", file=sys.stderr, flush=True)
    shutil.rmtree(environment, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)


def _pip(environment: Path, *arguments: str) -> None:
    command = [str(python_of(environment)), "-m", "pip", "-qq", "--disable-pip-version-check"]
    subprocess.run([*command, *arguments], check=True)


def _pydantic_version() -> str:
    show = "import pydantic; print(pydantic.VERSION)"
    command = [str(python_of(OURS)), "-c", show]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _is_fresh(environment: Path, stamp: str) -> bool:
    snapshot = environment / "benchmarks-stamp"
    return snapshot.exists() and snapshot.read_text() == stamp


def _seal(environment: Path, stamp: str) -> None:
    (environment / "benchmarks-stamp").write_text(stamp)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


if __name__ == "__main__":
    main(sys.argv[1:])
