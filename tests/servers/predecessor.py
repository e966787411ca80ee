"""The stores of jazzmine 0.1.42, in an environment of their own."""

from __future__ import annotations

import sys
import tempfile
import types
import zipfile
from pathlib import Path

from benchmarks.frame.environments import ROOT, pip, python_of, renewed

_FOLDER = ROOT / ".venv-bench-predecessor"
_VERSION = "0.1.42"
# What its stores import; its other modules (with torch and more) are never loaded.
_NEEDS = ("asyncpg", "motor", "redis")

PYTHON = python_of(_FOLDER)
SOURCE = _FOLDER / "jazzmine-source"


def make(pydantic: str) -> None:
    """Make the environment if it is missing, with a version of pydantic, such as "2.14.3"."""
    needs = (f"pydantic=={pydantic}", *_NEEDS)
    with renewed(_FOLDER, _VERSION, *needs) as is_new:
        if not is_new:
            return
        pip(_FOLDER, "install", *needs)
        with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
            only = ("--no-deps", "--only-binary=:all:", "--dest", folder)
            pip(_FOLDER, "download", *only, f"jazzmine=={_VERSION}")
            with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                wheel.extractall(SOURCE)


def load(source: Path) -> None:
    """Make `import jazzmine.core.…` find the predecessor without the imports of its packages.

    Its `__init__` modules import models and training code that no store needs; they are replaced
    by empty modules with the same search path.
    """
    package = source / "jazzmine"
    for name, folder in (("jazzmine", package), ("jazzmine.core", package / "core")):
        module = types.ModuleType(name)
        module.__path__ = [str(folder)]
        sys.modules[name] = module
