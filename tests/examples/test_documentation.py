"""Every Python block of the documentation is run as its reader would run it.

The blocks of a page run in their order and in one namespace, in an empty folder. A block that
must not run says why in a comment before it: `<!-- not run: it needs a model -->`. What a page
prints is compared with the block titled "Output" that follows.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

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


def run(block: Block, page: Path, names: dict[str, object]) -> str:
    """Run a block, whose top level may use `await`, and return what it printed."""
    source = "\n" * (block.line - 1) + block.text
    code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    printed = io.StringIO()
    with redirect_stdout(printed):
        result = eval(code, names)
        if inspect.iscoroutine(result):
            names["_loop"].run_until_complete(result)  # type: ignore[attr-defined]
    return printed.getvalue()


# The addresses that the documentation uses for its examples, and the servers that stand in.
_SERVERS: dict[str, Callable[[], str]] = {
    "postgresql://agent:secret@db.example/agents": lambda: postgres.dsn(postgres.VERSIONS[0]),
    "mongodb://db.example/agents": lambda: mongodb.uri("agents"),
    "redis://cache.example:6379/0": lambda: redis.url(),
}


def with_servers(text: str) -> str:
    for address, url in _SERVERS.items():
        if address in text:
            text = text.replace(address, url())
    return text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loop = asyncio.new_event_loop()
    names: dict[str, object] = {"__name__": "__main__", "_loop": loop}
    printed = ""
    try:
        for block in blocks_of(page):
            if block.is_output:
                assert printed == block.text, f"{page.name}:{block.line}: another output"
            elif block.runs:
                text = with_servers(block.text)
                printed = run(Block(block.line, block.info, text, None), page, names)
    finally:
        loop.close()
