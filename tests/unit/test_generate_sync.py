"""The generator of the sync copy, on a source of a few lines."""

from pathlib import Path

import pytest

from scripts import generate_sync
from scripts.generate_sync import COPY, SOURCE

ASYNC = '''"""Waits for a while."""

from shop._compat.aio import sleep


class Clock:
    """Tells the time, like `shop.aio.Clock`."""

    @property
    def name(self) -> str:
        return f"{{clock}} {self!r:>{10}}"

    async def wait(self, seconds: float) -> None:
        """Return after so many seconds."""  # ends with aio.close
        async with self:
            return (await sleep(seconds))

    async def __aenter__(self) -> None: ...
'''
SYNC = '''"""Waits for a while."""

from shop._compat.waits import sleep


class Clock:
    """Tells the time, like `shop.waits.Clock`."""

    @property
    def name(self) -> str:
        return f"{{clock}} {self!r:>{10}}"

    def wait(self, seconds: float) -> None:
        """Return after so many seconds."""  # ends with waits.close
        with self:
            return (sleep(seconds))

    def __enter__(self) -> None: ...
'''
NAMES = {"aio": "waits"}


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def run(root: Path, *arguments: str) -> int:
    return generate_sync.main(arguments, root=root, names=NAMES)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path, f"{SOURCE}/deep/clock.py", ASYNC)


@pytest.fixture
def copy(tmp_path: Path, source: Path) -> Path:
    return write(tmp_path, f"{COPY}/deep/clock.py", SYNC)


def test_the_copy_is_written_where_there_is_none(tmp_path: Path, source: Path) -> None:
    assert run(tmp_path, "--check") == 1
    assert run(tmp_path) == 0

    assert (tmp_path / COPY / "deep/clock.py").read_text(encoding="utf-8") == SYNC
    assert run(tmp_path, "--check") == 0


def test_the_check_shows_how_a_copy_was_changed_and_the_command(
    tmp_path: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = SYNC.replace("Waits for", "Waited for")
    copy.write_text(changed, encoding="utf-8")

    assert run(tmp_path, "--check") == 1

    output = capsys.readouterr().out
    assert f"{COPY}/deep/clock.py is out of date" in output
    assert '-"""Waited for a while."""\n+"""Waits for a while."""' in output
    assert output.endswith("run: python scripts/generate_sync.py\n")
    assert copy.read_text(encoding="utf-8") == changed
    assert run(tmp_path) == 0
    assert copy.read_text(encoding="utf-8") == SYNC


def test_an_orphan_is_shown_and_deleted(
    tmp_path: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orphan = write(tmp_path, f"{COPY}/watch.py", "hands = 2\n")

    assert run(tmp_path, "--check") == 1
    assert f"{COPY}/watch.py is orphaned" in capsys.readouterr().out
    assert run(tmp_path) == 0

    assert not orphan.exists()


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("clock.aclose()", "aclose"),
        ("import asyncio", "asyncio"),
        ("is_async = True", "is_async"),
        ('NAME = f"{1} of aclosing"', "aclosing"),
        ('item: "Awaitable[int]"', "Awaitable"),
        ("# One may await it.", "await"),
        ('"""Tells.\n\nA Coroutine.\n"""', "Coroutine"),
    ],
)
def test_what_would_be_wrong_in_the_copy_is_refused_with_its_line(
    tmp_path: Path, source: Path, line: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{ASYNC}{line}\n"
    source.write_text(text, encoding="utf-8")
    where = text[: text.rindex(word)].count("\n") + 1

    assert run(tmp_path) == 2

    assert f'{SOURCE}/deep/clock.py:{where}: "{word}" is left over' in capsys.readouterr().err


def test_the_copy_in_this_repository_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_sync.main(["--check"]) == 0, capsys.readouterr()
