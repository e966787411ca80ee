"""Options of the whole suite."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.behaviour.backends import Backend

# Tests of one server's back end, or programs that want servers; and builds, which are the same
# on every Python.
_WITH_SERVERS = re.compile(
    r"tests/backends/test_(postgres|redis|mongodb)|tests/examples/(?!test_order_desk)|tests/packaging"
    r"|tests/faults/(?!test_(failing_disk|killed|linearizability|power_cut))"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run on another Python be short."""
    parser.addoption(
        "--without-servers", action="store_true", help="test what needs no server, and no build"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is left out, so that it is counted as such."""
    if config.getoption("--without-servers"):
        left_out = {item for item in items if _wants_servers(item, config.rootpath)}
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _wants_servers(item: pytest.Item, root: Path) -> bool:
    if _WITH_SERVERS.match(item.path.relative_to(root).as_posix()):
        return True
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return any(isinstance(one, Backend) and not one.embedded for one in parameters)
