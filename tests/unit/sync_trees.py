"""A source of a few lines, its sync copy, and the generator's run on them."""

from pathlib import Path

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


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def run(root: Path, *arguments: str, trees: tuple[Tree, ...] = TREES) -> int:
    return generate_sync.main(arguments, root=root, trees=trees)
