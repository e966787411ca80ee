"""The generator of the sync copy, on trees of a few lines."""

import ast
from pathlib import Path

import pytest

from scripts import generate_sync
from scripts.generate_sync import Tree

SOURCE = '''"""Waits for a while."""

from shop._compat.aio import sleep


class Clock:
    """Tells the time."""

    @property
    def name(self) -> str:
        return f"{{clock}} {self!r:>{10}}"

    async def wait(self, seconds: float) -> None:
        """Return after so many seconds."""
        async with self:
            return (await sleep(seconds))
'''

COPY = '''"""Waits for a while."""

from shop._compat.waits import sleep


class Clock:
    """Tells the time."""

    @property
    def name(self) -> str:
        return f"{{clock}} {self!r:>{10}}"

    def wait(self, seconds: float) -> None:
        """Return after so many seconds."""
        with self:
            return (sleep(seconds))
'''

TREES = (Tree("src/_async", "src/_sync", {"aio": "waits"}),)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with one source and its copy."""
    write(tmp_path, "src/_async/clock.py", SOURCE)
    write(tmp_path, "src/_sync/clock.py", COPY)
    return tmp_path


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def run(root: Path, *arguments: str, trees: tuple[Tree, ...] = TREES) -> int:
    return generate_sync.main(arguments, root=root, trees=trees)


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


def test_a_changed_copy_is_written_anew(root: Path) -> None:
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
def test_prose_that_is_untrue_in_the_copy_is_refused(
    root: Path, line: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = SOURCE.replace('"""Tells the time."""', line)
    write(root, "src/_async/clock.py", source)
    where = source[: source.index(word)].count("\n") + 1

    assert run(root) == 2

    assert f'src/_async/clock.py:{where}: "{word}" in a comment' in capsys.readouterr().err


def test_a_state_that_is_called_awaiting_is_no_untruth(root: Path) -> None:
    write(root, "src/_async/clock.py", SOURCE + "# AWAITING_CONFIRMATION, awaiting\n")

    assert run(root) == 0


@pytest.mark.parametrize("expression", ["aio.now()", "x.aio", "AsyncClock", "x['aio']"])
def test_a_name_that_only_some_versions_replace_in_an_f_string_is_refused(
    root: Path, expression: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, "src/_async/clock.py", SOURCE + f'NAME = f"it is {{{expression}}}"\n')

    assert run(root) == 2

    error = capsys.readouterr().err
    assert "src/_async/clock.py:17:" in error
    assert "is not replaced in an f-string" in error


# Names in strings and comments

NAMES = (Tree("src/_async", "src/_sync", {"aio": "waits", "_async": "_sync", "core": "sync"}),)


@pytest.mark.parametrize(
    ("line", "copy"),
    [
        ('NAME = "shop._async.clock"', 'NAME = "shop._sync.clock"'),
        ('NAME = "shop.core.clock"', 'NAME = "shop.sync.clock"'),
        ('NAME = "shop.core"', 'NAME = "shop.sync"'),
        ('NAME = "core.clock"', 'NAME = "sync.clock"'),
        ('NAME = ".core"', 'NAME = ".sync"'),
        ('NAME = "core"', 'NAME = "sync"'),
        ("NAME = r'core'", "NAME = r'sync'"),
        ('NAME = rb"shop._async"', 'NAME = rb"shop._sync"'),
        ('NAME = b"shop.core.clock"', 'NAME = b"shop.sync.clock"'),
        ('NAME = """core"""', 'NAME = """sync"""'),
        ('NAME = "src/shop/_async/clock.py"', 'NAME = "src/shop/_sync/clock.py"'),
        ('NAME = "of shop.core.clock, and so on"', 'NAME = "of shop.sync.clock, and so on"'),
        ('item: "AsyncIterator[int] | None"', 'item: "Iterator[int] | None"'),
        ('item = cast("AsyncGenerator[int, None]", 1)', 'item = cast("Generator[int, None]", 1)'),
        ("item = 1  # type: AsyncIterable[int]", "item = 1  # type: Iterable[int]"),
        ('NAME = "__aenter__ and __anext__"', 'NAME = "__enter__ and __next__"'),
        ('NAME = "the core of it"', 'NAME = "the core of it"'),
        ('NAME = "to the core. Then"', 'NAME = "to the core. Then"'),
        ("# the core of shop.core", "# the core of shop.sync"),
        ('NAME = "hardcore.scorecore"', 'NAME = "hardcore.scorecore"'),
    ],
)
def test_names_in_strings_and_comments_are_replaced_and_words_are_not(
    root: Path, line: str, copy: str
) -> None:
    use_all = "from shop._async.core import bell\n"
    write(root, "src/_async/clock.py", f"{SOURCE}{use_all}{line}\n")

    assert run(root, trees=NAMES) == 0

    used = "from shop._sync.sync import bell\n"
    text = (root / "src/_sync/clock.py").read_text(encoding="utf-8")
    assert text == f"{COPY}{used}{copy}\n"


@pytest.mark.parametrize(
    "line",
    [
        'NAME = f"shop._async.{1}"',
        'NAME = f"shop.core.{1}"',
        'NAME = rf"{1}.core"',
        "NAME = f\"{f'{1}shop._async'}\"",
        "NAME = f\"{f'{core.now()}'}\"",
        'NAME = f"{1:{aio.width}}"',
        'NAME = f"{1} AsyncIterator"',
    ],
)
def test_a_name_in_the_text_of_an_f_string_is_refused(
    root: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, "src/_async/clock.py", f"{SOURCE}from shop._async.core import bell\n{line}\n")

    assert run(root, trees=NAMES) == 2

    error = capsys.readouterr().err
    assert "src/_async/clock.py:18:" in error
    assert "is not replaced in an f-string: name it outside" in error


# Names that would be wrong in the copy


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("clock.aclose()", "aclose"),
        ("anext(clock)", "anext"),
        ("aiter(clock)", "aiter"),
        ("from contextlib import aclosing", "aclosing"),
        ("from contextlib import AsyncExitStack", "AsyncExitStack"),
        ("contextlib.AsyncExitStack()", "AsyncExitStack"),
        ("stack.enter_async_context(clock)", "enter_async_context"),
        ("stack.push_async_callback(clock)", "push_async_callback"),
        ("from typing import Awaitable", "Awaitable"),
        ("from typing import Coroutine", "Coroutine"),
        ("from typing import AsyncContextManager", "AsyncContextManager"),
        ("inspect.isawaitable(clock)", "isawaitable"),
        ("inspect.iscoroutinefunction(clock)", "iscoroutinefunction"),
        ("inspect.isasyncgen(clock)", "isasyncgen"),
        ("clock.__await__()", "__await__"),
        ("clock.asend(1), clock.athrow(1)", "asend"),
        ("is_async = True", "is_async"),
        ("mock.AsyncMock()", "AsyncMock"),
        ("unittest.IsolatedAsyncioTestCase", "IsolatedAsyncioTestCase"),
    ],
)
def test_a_name_without_an_equivalent_is_refused_with_its_line_and_a_cure(
    root: Path, line: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, "src/_async/clock.py", f"{SOURCE}{line}\n")

    assert run(root) == 2

    error = capsys.readouterr().err
    assert f'src/_async/clock.py:17: "{name}" is left over in the copy' in error
    assert "give it a replacement in TREES" in error


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('NAME = "aclose"', "aclose"),
        ('NAME = r"the anext of it"', "anext"),
        ('NAME = b"asyncio.sleep"', "asyncio"),
        ('NAME = "asyncio.sleep"', "asyncio"),
        ('item: "Awaitable[int]"', "Awaitable"),
        ('item: "AsyncExitStack | None"', "AsyncExitStack"),
        ("item = 1  # type: Coroutine[int]", "Coroutine"),
        ('NAME = f"{1} of aclosing"', "aclosing"),
        ('NAME = ("one"\n  "and aiter")', "aiter"),
    ],
)
def test_a_name_without_an_equivalent_in_a_string_is_refused_with_its_line_and_a_cure(
    root: Path, line: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = f"{SOURCE}{line}\n"
    write(root, "src/_async/clock.py", source)
    where = source[: source.index(name)].count("\n") + 1

    assert run(root) == 2

    error = capsys.readouterr().err
    assert f'src/_async/clock.py:{where}: "{name}" in a comment or string is untrue' in error
    assert "reword it, give it a replacement" in error


def test_a_name_with_a_replacement_is_replaced_everywhere(root: Path) -> None:
    names = {"aio": "waits", "aclose": "close", "AsyncExitStack": "ExitStack"}
    lines = 'clock.aclose()  # AsyncExitStack, aclose\nNAME = ("aclose", "to aclose it")\n'
    write(root, "src/_async/clock.py", SOURCE + lines)

    assert run(root, trees=(Tree("src/_async", "src/_sync", names),)) == 0

    text = (root / "src/_sync/clock.py").read_text(encoding="utf-8")
    copy = 'clock.close()  # ExitStack, close\nNAME = ("close", "to close it")\n'
    assert text == COPY + copy


def test_a_class_that_the_tree_defines_needs_no_replacement(root: Path) -> None:
    write(root, "src/_async/bell.py", "class AsyncBell:\n    pass\n")
    write(root, "src/_async/clock.py", SOURCE + "from bell import AsyncBell  # AsyncBell\n")

    assert run(root) == 0

    text = (root / "src/_sync/clock.py").read_text(encoding="utf-8")
    assert text == COPY + "from bell import SyncBell  # SyncBell\n"


def test_two_names_that_become_one_in_a_class_are_refused(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = "class Bell:\n    def close(self): ...\n    async def aclose(self): ...\n"
    write(root, "src/_async/clock.py", SOURCE + both)
    names = {"aio": "waits", "aclose": "close"}

    assert run(root, trees=(Tree("src/_async", "src/_sync", names),)) == 2

    error = capsys.readouterr().err
    assert 'src/_async/clock.py:19: "close" is defined twice in the copy' in error


def test_a_name_that_is_defined_twice_in_the_source_too_is_let_be(root: Path) -> None:
    setter = "\n    @name.setter\n    def name(self, value: str) -> None: ...\n"
    write(root, "src/_async/clock.py", SOURCE + setter)

    assert run(root) == 0


def test_other_f_strings_are_left_as_they_are(root: Path) -> None:
    line = 'NAME = f"""{{clock}} é{1:>{2}}\n{{{3!r}}}"""  # {4}\n'
    write(root, "src/_async/clock.py", SOURCE + line)

    assert run(root) == 0

    assert (root / "src/_sync/clock.py").read_text(encoding="utf-8") == COPY + line


@pytest.mark.parametrize("line", ["import asyncio", "import shop._async.bell"])
def test_a_name_left_over_in_the_copy_is_refused(
    root: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, "src/_async/clock.py", SOURCE + line + "\n")

    assert run(root) == 2

    error = capsys.readouterr().err
    assert "src/_async/clock.py:17:" in error
    assert "is left over" in error


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
