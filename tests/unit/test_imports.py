"""No module of the library imports one that imports it, directly or through others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import jazzmine

PACKAGE = Path(jazzmine.__file__).parent


def modules() -> dict[str, Path]:
    """Every module of the library by its name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(text: str, known: set[str]) -> Iterator[str]:
    """Every module of the library that a text imports, anywhere in it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield from (one for one in (name, node.module) if one in known)


def circle(texts: dict[str, str]) -> list[str]:
    """Return a cycle of imports, or an empty list."""
    # A store makes a view of itself, which stands beside it.
    imports = {
        name: set(imported(text, set(texts))) - {name, name.removesuffix("store") + "scoped"}
        for name, text in texts.items()
    }
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_one_that_imports_it() -> None:
    assert circle({name: path.read_text() for name, path in modules().items()}) == []
