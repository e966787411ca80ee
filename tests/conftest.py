"""Options of the whole suite."""

from __future__ import annotations

import gc
import os
import re
import signal
import tempfile
from collections.abc import Generator, Iterator
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.behaviour.backends import ITEM_BACKENDS, MEMORY_BACKENDS, MESSAGE_BACKENDS, Backend
from tests.combinations import keep_needed
from tests.faults.sizes import SOAK
from tests.servers import run_folder

# The machine may be busy: no example has a deadline.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")


@pytest.fixture(autouse=True, scope="module")
def _collected() -> Iterator[None]:
    """Collect the garbage of a module, so that a warning belongs to the module that caused it."""
    yield
    gc.collect()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option for a short run, for example on another Python."""
    parser.addoption(
        "--without-servers", action="store_true", help="test what needs no server, and no build"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Put all files of the run into one folder, which is removed at the end."""
    if config.getoption("--without-servers"):
        run_folder.refuse_servers()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts background jobs so, and programs under test would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    given = getattr(config, "workerinput", {}).get("run_folder")
    if given:
        run_folder.join(given)
    folder = run_folder.entered()
    (folder / "tmp").mkdir(exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")
    if config.option.basetemp is None:
        config.option.basetemp = str(folder / "pytest")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collected tests out of the searches for garbage, which they make slow."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the folder to the other processes of the run."""
    node.workerinput["run_folder"] = str(run_folder.entered())


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, None, None]:
    """Choose combinations of parameters."""
    yield
    if metafunc._calls and not SOAK:
        keep_needed(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the tests that cannot run, and deselect those that should not."""
    for item in items:
        if reason := _missing(item):
            item.add_marker(pytest.mark.skip(reason=reason))
    if config.getoption("--without-servers"):
        left_out = list(_with_servers(items))
        config.hook.pytest_deselected(items=left_out)
        kept = set(items) - set(left_out)
        items[:] = [item for item in items if item in kept]
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    """Return when a test runs: first what names all that a change still needs, then the longest.

    The last ones are short, so that no process is left alone with them.
    """
    folder = item.nodeid.split("/")[1]
    return {"unit": 0, "packaging": 0, "behaviour": 1, "faults": 2}.get(folder, 3)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Use three processes for each processor, because tests wait half of the time.

    Use one process for a few files, which is faster, and if an external server is configured,
    because several processes would delete each other's data there.
    """
    few = all(".py" in argument for argument in config.args)
    given = {"JAZZMINE_TEST_REDIS", "JAZZMINE_TEST_MONGODB"} & os.environ.keys()
    return 0 if few or given else 3 * (os.cpu_count() or 1)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Distribute the tests among processes, each of which starts the servers that it needs."""
    return _ByBackend(config, log)


class _ByBackend(LoadScopeScheduling):  # type: ignore[misc]
    """Runs the tests of a back end in one process, and other tests file by file."""

    _BACKEND = re.compile(
        r"tests/behaviour/.*\[(?:.*-)?({})\b".format(
            "|".join(
                sorted(
                    map(str, ITEM_BACKENDS + MEMORY_BACKENDS + MESSAGE_BACKENDS),
                    key=len,
                    reverse=True,
                )
            )
        )
    )

    def _split_scope(self, nodeid: str) -> str:
        found = self._BACKEND.match(nodeid)
        return found[1] if found else nodeid.partition("::")[0]


def _with_servers(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the tests of a back end with a server, and those that build the package."""
    for item in items:
        on_server = any(not backend.embedded for backend in _backends(item))
        if on_server or item.get_closest_marker("packaging"):
            yield item


def _missing(item: pytest.Item) -> str:
    return next((backend.missing for backend in _backends(item) if backend.missing), "")


def _backends(item: pytest.Item) -> list[Backend]:
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return [one for one in parameters if isinstance(one, Backend)]
