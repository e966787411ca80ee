"""Options of the whole suite."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.behaviour.backends import MEMORY_BACKENDS, MESSAGE_BACKENDS, Backend
from tests.left_out import LeftOut
from tests.servers import run_folder

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


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Have all that the run makes in one folder, which is removed at its end."""
    config.pluginmanager.register(LeftOut(), "left out")
    given = getattr(config, "workerinput", {}).get("run_folder")
    if given:
        run_folder.join(given)
    folder = run_folder.entered()
    (folder / "tmp").mkdir(exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")
    if config.option.basetemp is None:
        config.option.basetemp = str(folder / "pytest")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell the other processes of the run where the folder is."""
    node.workerinput["run_folder"] = str(run_folder.entered())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, Any]:
    """Say in a few lines that a server does not start."""
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, run_folder.CannotStartError):
        report.longrepr = str(call.excinfo.value)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """End the run, in every process, once a server does not start."""
    result = yield
    if reason := run_folder.stop_reason():
        item.session.shouldstop = reason.partition("\n")[0].rstrip(":")
    return result


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect or skip what is left out, so that it is counted as such."""
    for item in items:
        if reason := _missing(item):
            item.add_marker(pytest.mark.skip(reason=reason))
    if config.getoption("--without-servers"):
        left_out = [item for item in items if _wants_servers(item, config.rootpath)]
        plugin: Any = config.pluginmanager.get_plugin("left out")
        plugin.deselect(config, left_out, "they need a server, or build (no --without-servers)")
        kept = set(items) - set(left_out)
        items[:] = [item for item in items if item in kept]


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
    return any(not backend.embedded for backend in _backends(item))


def _missing(item: pytest.Item) -> str:
    return next((backend.missing for backend in _backends(item) if backend.missing), "")


def _backends(item: pytest.Item) -> list[Backend]:
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return [one for one in parameters if isinstance(one, Backend)]
