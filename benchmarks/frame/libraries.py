"""Which `jazzmine` a process imports: the one of its environment, or the predecessor's source."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from pathlib import Path

from benchmarks.frame import environments


@dataclass(frozen=True)
class Library:
    """An interpreter, and the path of the predecessor if it must import that one."""

    name: str
    python: Path
    source: Path | None = None


OURS = Library("ours", environments.python_of(environments.OURS))
PREDECESSOR = Library(
    "predecessor",
    environments.python_of(environments.PREDECESSOR),
    environments.PREDECESSOR_SOURCE,
)


def load_predecessor(source: Path) -> None:
    """Make `import jazzmine.core.…` find the predecessor without the imports of its packages.

    Its `__init__` modules import models and training code that no store needs; they are replaced
    by empty modules with the same search path.
    """
    package = source / "jazzmine"
    for name, folder in (("jazzmine", package), ("jazzmine.core", package / "core")):
        module = types.ModuleType(name)
        module.__path__ = [str(folder)]
        sys.modules[name] = module
