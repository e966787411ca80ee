"""The generator of the sync copy, on trees of a few lines."""

import ast
from pathlib import Path

import pytest

from scripts import generate_sync
from scripts.generate_sync import Tree
from tests.unit.sync_trees import COPY, SOURCE, TREES, run, write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with one source and its copy."""
    write(tmp_path, "src/_async/clock.py", SOURCE)
    write(tmp_path, "src/_sync/clock.py", COPY)
    return tmp_path


def definitions(path: Path) -> list[int]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    module = ast.parse(path.read_text(encoding="utf-8"))
    return sorted(node.lineno for node in ast.walk(module) if isinstance(node, kinds))


def test_the_copy_is_written_where_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "src/_async/deep/clock.py", SOURCE)

    assert run(tmp_path) == 0

    assert (tmp_path / "src/_sync/deep/clock.py").read_text(encoding="utf-8") == COPY
    assert "wrote src/_sync/deep/clock.py" in capsys.readouterr().out


def test_a_copy_that_is_up_to_date_passes_the_check(root: Path) -> None:
    assert run(root, "--check") == 0


def test_a_second_run_touches_nothing(root: Path) -> None:
    copy = root / "src/_sync/clock.py"
    before = copy.stat()

    assert run(root) == 0

    after = copy.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_the_check_shows_a_missing_file_and_the_command(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "src/_sync/clock.py").unlink()

    assert run(root, "--check") == 1

    output = capsys.readouterr().out
    assert "src/_sync/clock.py is missing" in output
    assert "+from shop._compat.waits import sleep" in output
    assert output.endswith("run: python scripts/generate_sync.py\n")
    assert not (root / "src/_sync/clock.py").exists()


def test_the_check_shows_how_a_copy_was_changed(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = COPY.replace("Tells the time", "Told the time")
    copy = write(root, "src/_sync/clock.py", changed)

    assert run(root, "--check") == 1

    output = capsys.readouterr().out
    assert "src/_sync/clock.py is out of date" in output
    assert '-    """Told the time."""\n+    """Tells the time."""' in output
    assert copy.read_text(encoding="utf-8") == changed


def test_a_changed_copy_is_written_again(root: Path) -> None:
    copy = write(root, "src/_sync/clock.py", COPY + "\n")

    assert run(root) == 0

    assert copy.read_text(encoding="utf-8") == COPY


def test_the_check_shows_an_orphan(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    orphan = write(root, "src/_sync/old/watch.py", "hands = 2\n")

    assert run(root, "--check") == 1

    output = capsys.readouterr().out
    assert "src/_sync/old/watch.py is orphaned" in output
    assert "-hands = 2" in output
    assert orphan.exists()


def test_an_orphan_is_deleted_with_the_folder_it_leaves_empty(root: Path) -> None:
    write(root, "src/_sync/old/watch.py", "hands = 2\n")
    write(root, "src/_sync/old/__pycache__/watch.pyc", "")

    assert run(root) == 0

    assert not (root / "src/_sync/old").exists()
    assert (root / "src/_sync/clock.py").exists()


def test_compiled_files_are_no_orphans(root: Path) -> None:
    compiled = write(root, "src/_sync/__pycache__/clock.pyc", "")

    assert run(root, "--check") == 0
    assert run(root) == 0

    assert compiled.exists()


@pytest.mark.parametrize("arguments", [(), ("--check",)])
def test_a_source_folder_without_files_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "src/_async").mkdir(parents=True)
    copy = write(tmp_path, "src/_sync/clock.py", COPY)

    assert run(tmp_path, *arguments) == 2

    assert "src/_async: no Python file" in capsys.readouterr().err
    assert copy.exists()


def test_a_missing_source_folder_is_refused(tmp_path: Path) -> None:
    assert run(tmp_path) == 2


def test_a_tree_is_skipped_where_the_folder_that_needs_it_is_absent(root: Path) -> None:
    tests = Tree("tests/_async", "tests/_sync", {"core": "sync"}, needed_if="tests")

    assert run(root, "--check", trees=(*TREES, tests)) == 0


def test_a_tree_whose_source_vanished_is_refused(root: Path) -> None:
    tests = Tree("tests/_async", "tests/_sync", {"core": "sync"}, needed_if="tests")
    write(root, "tests/_sync/test_clock.py", "")

    assert run(root, "--check", trees=(*TREES, tests)) == 2


def test_a_replacement_that_no_file_uses_is_refused(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trees = (Tree("src/_async", "src/_sync", {"aio": "waits", "aclose": "close"}),)

    assert run(root, "--check", trees=trees) == 2

    error = capsys.readouterr().err
    assert error == 'src/_async: no file uses the replacement of "aclose"\n'


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ('"""Tells.\n\n    One may await it.\n    """', "await"),
        ("# An async clock.", "async"),
        ('print("from asyncio")', "asyncio"),
        ('print(f"a Coroutine {1}")', "Coroutine"),
        ("print(rb'awaits')", "awaits"),
    ],
)
def test_prose_that_would_be_wrong_in_the_copy_is_refused(
    root: Path, line: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = SOURCE.replace('"""Tells the time."""', line)
    write(root, "src/_async/clock.py", source)
    where = source[: source.index(word)].count("\n") + 1

    assert run(root) == 2

    assert f'src/_async/clock.py:{where}: "{word}" in a comment' in capsys.readouterr().err


def test_the_name_of_a_state_that_contains_await_is_accepted(root: Path) -> None:
    write(root, "src/_async/clock.py", SOURCE + "# AWAITING_CONFIRMATION, awaiting\n")

    assert run(root) == 0


@pytest.mark.parametrize(
    "line",
    [
        "def",
        "x = '",
        "async def f():\n    return await(g())",
        "async def f():\n    x = await\\\n g()",
    ],
)
def test_a_source_or_copy_that_is_no_python_is_refused(
    root: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, "src/_async/clock.py", SOURCE + line + "\n")

    assert run(root) == 2

    assert "src/_async/clock.py:" in capsys.readouterr().err


def test_every_class_and_function_keeps_its_line(root: Path) -> None:
    assert run(root) == 0

    assert definitions(root / "src/_async/clock.py") == [6, 10, 13]
    assert definitions(root / "src/_sync/clock.py") == [6, 10, 13]


def test_the_copy_in_this_repository_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_sync.main(["--check"]) == 0, capsys.readouterr()
