"""The two APIs have the same names, and import no more than they need.

What the names stand for is generated for the sync API from the async one (`test_generate_sync.py`).
"""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import jazzmine

PACKAGE = Path(jazzmine.__file__).parent
ASYNC, SYNC = PACKAGE / "_async", PACKAGE / "_sync"

MODULES = [
    ("jazzmine.core", "jazzmine.sync"),
    ("jazzmine.core.message_store", "jazzmine.sync.message_store"),
    ("jazzmine.core.working_memory", "jazzmine.sync.working_memory"),
    ("jazzmine.core.long_term_memory", "jazzmine.sync.long_term_memory"),
]
DRIVERS = ["psycopg", "psycopg_pool", "pymongo", "redis", "motor"]


def exported() -> Iterator[tuple[str, object, object]]:
    """Return every exported name with its objects in the two APIs."""
    for core, sync in MODULES:
        ours, theirs = importlib.import_module(core), importlib.import_module(sync)
        for name in ours.__all__:
            yield f"{core}.{name}", getattr(ours, name), getattr(theirs, name, None)


def lives_in(value: object, package: str) -> bool:
    return getattr(value, "__module__", "").startswith(f"jazzmine.{package}")


EXPORTED = list(exported())
PAIRS = {a: b for _, a, b in EXPORTED if lives_in(a, "_async")}


@pytest.mark.parametrize(("core", "sync"), MODULES)
def test_both_apis_export_the_same_names(core: str, sync: str) -> None:
    ours, theirs = importlib.import_module(core), importlib.import_module(sync)

    assert sorted(ours.__all__) == sorted(theirs.__all__)
    assert [name for name in theirs.__all__ if not hasattr(theirs, name)] == []


@pytest.mark.parametrize("kind", ["core", "sync"])
def test_the_short_import_has_what_the_three_modules_have(kind: str) -> None:
    short = importlib.import_module(f"jazzmine.{kind}")
    messages = importlib.import_module(f"jazzmine.{kind}.message_store")
    memory = importlib.import_module(f"jazzmine.{kind}.working_memory")
    items = importlib.import_module(f"jazzmine.{kind}.long_term_memory")

    together = {"Stores", "open_stores"}
    assert {*short.__all__} == {*messages.__all__, *memory.__all__, *items.__all__, *together}


def test_names_without_io_are_the_same_objects_in_both_apis() -> None:
    shared = [pair for pair in EXPORTED if not lives_in(pair[1], "_async")]

    assert shared
    assert [name for name, ours, theirs in shared if ours is not theirs] == []


def test_every_store_is_exported_by_both_apis() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in ASYNC.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    stores = {node.name for node in nodes if re.fullmatch(r"(?!Scoped)[A-Z]\w+Store", node.name)}

    assert {"MessageStore", "WorkingMemoryStore"} <= stores
    stores = {name for name in stores if not name.startswith("Scoped")}  # made by `scoped()`
    assert stores <= {getattr(ours, "__name__", "") for ours in PAIRS}
    assert all(lives_in(theirs, "_sync") for theirs in PAIRS.values())


def test_no_back_end_replaces_a_public_method() -> None:
    stores = [api for pair in PAIRS.items() for api in pair if isinstance(api, type)]
    bases = [store for store in stores if store.__name__ in ("MessageStore", "WorkingMemoryStore")]
    own = [
        f"{owner.__module__}.{owner.__name__}.{name}"
        for store in stores
        for owner in store.__mro__
        if any(owner is not base and issubclass(owner, base) for base in bases)
        for name in vars(owner)
        if not name.startswith("_")
    ]

    assert len(bases) == 4
    assert own == []


def printed_by(code: str) -> str:
    """Return what a new interpreter prints."""
    command = [sys.executable, "-I", "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_no_driver_is_imported_before_its_store_is_opened(tmp_path: Path) -> None:
    """Neither with the modules of the public names, among them those of jazzmine 0.1.42."""
    paths = [path for api in ("core", "sync") for path in (PACKAGE / api).rglob("*.py")]
    names = [path.relative_to(PACKAGE.parent).with_suffix("").as_posix() for path in paths]
    modules = [name.replace("/", ".") for name in names if not name.endswith("/postgres")]
    code = (
        f"import sys, {', '.join(modules)}\n"
        "from jazzmine.sync import *\n"
        f"MessageStore.initialize('json:{tmp_path}/messages.json').close()\n"
        "WorkingMemoryStore.initialize('memory:').close()\n"
        "print(*sys.modules)"
    )

    assert len(modules) > 15
    assert set(printed_by(code).split()).isdisjoint(DRIVERS)
