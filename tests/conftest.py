"""Options of the whole suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.behaviour.backends import Backend

# What another Python does not change.
_SAME_EVERYWHERE = ("tests/packaging", "tests/backends/test_postgres_plans.py")

# What these pass is refused before it gets to a back end: one that starts no server will do.
_REFUSED_BEFORE_ANY_SERVER = (
    "test_arguments.py",
    "test_refused_values.py",
    "test_working_memory_arguments.py",
)
_EMBEDDED = ("json", "memory")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run on another Python be shorter."""
    parser.addoption(
        "--without-variants",
        action="store_true",
        help="test each kind of back end once, and leave out what no Python changes",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is left out, so that it is counted as such."""
    if not config.getoption("--without-variants"):
        return
    left_out = [item for item in items if _is_left_out(item, config.rootpath)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


def _is_left_out(item: pytest.Item, root: Path) -> bool:
    if item.path.relative_to(root).as_posix().startswith(_SAME_EVERYWHERE):
        return True
    callspec = getattr(item, "callspec", None)
    backends = (
        [one for one in callspec.params.values() if isinstance(one, Backend)] if callspec else []
    )
    embedded = item.path.name in _REFUSED_BEFORE_ANY_SERVER
    return any(one.variant or (embedded and one.name not in _EMBEDDED) for one in backends)
