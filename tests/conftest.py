"""Options of the whole suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.behaviour.backends import Backend

# What another Python does not change.
_SAME_EVERYWHERE = ("tests/packaging", "tests/backends/test_postgres_plans.py")


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
    path = item.path.relative_to(root).as_posix()
    parameters = (
        item.callspec.params.values()
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else ()
    )
    variant = any(isinstance(value, Backend) and value.variant for value in parameters)
    return variant or path.startswith(_SAME_EVERYWHERE)
