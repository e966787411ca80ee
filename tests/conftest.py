"""Options of the whole suite."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.behaviour.backends import MEMORY_BACKENDS, MESSAGE_BACKENDS, Backend

# Tests of one server's back end, or programs that want servers; and builds, which are the same
# on every Python.
_WITH_SERVERS = re.compile(
    r"tests/backends/test_(postgres|redis|mongodb)|tests/examples/(?!test_order_desk)|tests/packaging"
    r"|tests/faults/(?!test_(failing_disk|killed|linearizability|power_cut|proxy))"
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


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Stay in one process for a few files, which are done sooner than other processes start.

    And where a server is given, whose data several processes would empty under each other.
    """
    few = all(".py" in argument for argument in config.args)
    given = {"JAZZMINE_TEST_REDIS", "JAZZMINE_TEST_MONGODB"} & os.environ.keys()
    return 0 if few or given else None


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Share the tests out among processes, each of which starts the servers it meets."""
    return _ByBackend(config, log)


class _ByBackend(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps the tests of a back end together in one process, and all others by their files."""

    _BACKEND = re.compile(
        r"tests/behaviour/.*\[({})\b".format(
            "|".join(sorted(map(str, MEMORY_BACKENDS + MESSAGE_BACKENDS), key=len, reverse=True))
        )
    )

    def _split_scope(self, nodeid: str) -> str:
        found = self._BACKEND.match(nodeid)
        return found[1] if found else nodeid.partition("::")[0]


def _wants_servers(item: pytest.Item, root: Path) -> bool:
    if _WITH_SERVERS.match(item.path.relative_to(root).as_posix()):
        return True
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return any(isinstance(one, Backend) and not one.embedded for one in parameters)
