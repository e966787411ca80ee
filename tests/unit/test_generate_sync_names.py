"""The names that the generator of the sync copy replaces, and those that it refuses."""

from pathlib import Path

import pytest

from scripts.generate_sync import Tree
from tests.unit.sync_trees import COPY, SOURCE, run, write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with one source and its copy."""
    write(tmp_path, "src/_async/clock.py", SOURCE)
    write(tmp_path, "src/_sync/clock.py", COPY)
    return tmp_path


@pytest.mark.parametrize("expression", ["aio.now()", "x.aio", "AsyncClock", "x['aio']"])
def test_a_name_that_only_some_versions_replace_in_an_f_string_is_refused(
    root: Path, expression: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, "src/_async/clock.py", SOURCE + f'NAME = f"it is {{{expression}}}"\n')

    assert run(root) == 2

    error = capsys.readouterr().err
    assert "src/_async/clock.py:17:" in error
    assert "is not replaced in an f-string" in error


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


def test_a_name_that_is_defined_twice_in_the_source_too_is_accepted(root: Path) -> None:
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
