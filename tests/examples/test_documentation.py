"""Every Python block of the documentation is run.

The blocks of a page run in their order and in one namespace, in an empty folder. A block that must
not run says why in a comment before it: `<!-- not run: it needs a model -->`. The output of a
block is compared with the block titled "Output" that follows. The page of each back end lists its
options with their defaults, and links lead to files.
"""

from __future__ import annotations

import ast
import asyncio
import gc
import inspect
import io
import logging
import os
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stdout
from dataclasses import MISSING, Field, dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.util._once import Once

from jazzmine import config
from jazzmine.config import BackendConfig
from tests.adapters.frameworks import FRAMEWORKS, missing
from tests.servers import mongodb, postgres, redis

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(
    r"(?:^[ ]*<!-- not run: (?P<reason>[^\n]+?) -->\n+)?"
    r"^(?P<indent>[ ]*)```(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    line: int
    info: str
    text: str
    reason: str | None

    @property
    def runs(self) -> bool:
        return self.info.split(" ")[0] == "python" and self.reason is None

    @property
    def is_output(self) -> bool:
        return 'title="Output"' in self.info


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("text")) + 1
        yield Block(line, match["info"], textwrap.dedent(match["text"]), match["reason"])


def defined_in(page: str, wanted: Callable[[str], bool] = bool) -> dict[str, Any]:
    """Return what the wanted blocks of a page of the documentation define."""
    names: dict[str, Any] = {}
    for block in blocks_of(ROOT / "docs" / page):
        if block.runs and wanted(block.text):
            exec(block.text.partition("\n\npieces = ")[0], names)
    return names


def run(block: Block, page: Path, names: dict[str, Any]) -> str:
    """Run a block, whose top level may use `await`, and return what it printed."""
    source = "\n" * (block.line - 1) + block.text
    code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    printed = io.StringIO()
    with redirect_stdout(printed):
        result = eval(code, names)
        if inspect.iscoroutine(result):
            names["_loop"].run_until_complete(result)
    return printed.getvalue()


@contextmanager
def empty_mongodb() -> Iterator[str]:
    with mongodb.database() as config:
        yield f"{config['uri']}/{config['db']}"


# The addresses in the documentation, and the test servers that replace them.
_SERVERS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "postgresql://agent:secret@db.example/agents": postgres.new_database,
    "mongodb://db.example/agents": empty_mongodb,
    "redis://cache.example:6379/0": redis.database,
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_blocks_of_a_page_run(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if (
        page.parent.name in ("adapters", "moving")
        and page.stem in FRAMEWORKS
        and (reason := missing(page.stem))
    ):
        pytest.skip(reason)
    monkeypatch.chdir(tmp_path)
    # A level of logging or a tracer provider that a page sets is not that of the tests after it.
    caplog.set_level(logging.WARNING, "psycopg.pool")
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    blocks = list(blocks_of(page))
    loop = asyncio.new_event_loop()
    names: dict[str, object] = {"__name__": "__main__", "_loop": loop}
    printed = ""
    with ExitStack() as servers:
        servers.callback(loop.close)
        stand_ins = {
            address: servers.enter_context(opened())
            for address, opened in _SERVERS.items()
            if any(block.runs and address in block.text for block in blocks)
        }
        for block in blocks:
            if block.is_output:
                assert printed == block.text, f"{page.name}:{block.line}: another output"
            elif block.runs:
                text = block.text
                for address, url in stand_ins.items():
                    text = text.replace(address, url)
                printed = run(replace(block, text=text), page, names)
    # What the page left open fails this test, and not one that runs while it is collected.
    names.clear()
    gc.collect()


# Links


GUIDES = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "tests/README.md"]


@pytest.mark.parametrize("guide", GUIDES)
def test_every_link_leads_to_a_file(guide: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / guide).read_text(encoding="utf-8"))

    assert [link for link in links if not ((ROOT / guide).parent / link).exists()] == []


def test_every_file_of_the_map_of_the_tests_is_there() -> None:
    tests = ROOT / "tests"
    names = re.findall(r"`([\w/*]+\.py)`", (tests / "README.md").read_text(encoding="utf-8"))
    folders = [tests, tests / "behaviour"]

    assert len(names) > 50
    assert [name for name in names if not any(any(at.glob(name)) for at in folders)] == []


# Options


BACKENDS = ROOT / "docs" / "backends"
OPTIONS = [
    pytest.param(kind, option, id=f"{kind.storage}-{option.name}")
    for kind in vars(config).values()
    if isinstance(kind, type) and issubclass(kind, BackendConfig) and hasattr(kind, "storage")
    for option in fields(kind)
]


def written(default: object) -> set[str]:
    """How a page may write a default."""
    if default is MISSING:
        return {"(required)"}
    if isinstance(default, (bool, str, os.PathLike)):
        return {f"`{default}`"}
    return {f"{default:g}"} if isinstance(default, (int, float)) else {str(default)}


@pytest.mark.parametrize(("kind", "option"), OPTIONS)
def test_an_option_is_in_the_table_of_its_page(
    kind: type[BackendConfig], option: Field[Any]
) -> None:
    page = BACKENDS / f"{kind.storage}.md"
    text = (BACKENDS / "index.md").read_text("utf-8") + page.read_text("utf-8")
    table = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", text, re.MULTILINE))
    assert option.name in table, f"docs/backends/{page.name} has to list the option {option.name}"
    assert table[option.name] in written(option.default)
