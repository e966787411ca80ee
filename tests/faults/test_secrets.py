"""Invalid and unreachable addresses: no error, repr or log record shows a password."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from jazzmine import ConfigurationError, StoreUnavailableError
from jazzmine.sync.message_store import MessageStore
from jazzmine.sync.working_memory import WorkingMemoryStore
from tests.faults.faulty_network import APIS, is_unavailable, opened
from tests.servers import postgres

SECRET = "hunter2"

# If a driver is stopped while it connects, the socket may be left to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)


POSTGRES = [
    f"postgresql://me:{SECRET}@host:port/db",
    f"postgresql://me:{SECRET}@127.0.0.1:99999/db",
    f"postgresql://me:x@{SECRET}@127.0.0.1:1/db",
    f"postgresql://me:4711/{SECRET}@127.0.0.1/db",
    f"postgresql://me:{SECRET}%zz@127.0.0.1/db",
    f"postgresql://me:{SECRET}@[::1/db",
    f"postgresql://me:{SECRET}@127.0.0.1:1/db?nonsense=1",
    f"host=127.0.0.1 password={SECRET} nonsense=1",
    f"host=127.0.0.1 password='{SECRET}",
    f"host=127.0.0.1 port=1 password={SECRET}",
    f"postgresql:{SECRET}",
    f"postgresql://127.0.0.1:1/db?password={SECRET}",
    f"postgresql://me:{SECRET}@127.0.0.1:1/db",
]
MONGODB = [
    f"mongodb://me:{SECRET}@127.0.0.1:99999",
    f"mongodb://me:{SECRET}@127.0.0.1:port/db",
    f"mongodb://me:x@{SECRET}@127.0.0.1:1/db",
    f"mongodb://me:4711/{SECRET}@127.0.0.1:1/db",
    f"mongodb://me:{SECRET}%zz@127.0.0.1:1/db",
    f"mongodb://me:{SECRET}@[::1/db",
    f"mongodb://me:{SECRET}@/db",
    f"mongodb://me:{SECRET}@127.0.0.1:1/db?authMechanism={SECRET}",
    f"mongodb:{SECRET}",
    f"mongodb://me:{SECRET}@127.0.0.1:1/db",
]
REDIS = [
    f"redis://me:{SECRET}@127.0.0.1:99999/0",
    f"redis://me:{SECRET}@127.0.0.1:port/0",
    f"redis://me:x@{SECRET}@127.0.0.1:1/0",
    f"redis://me:4711/{SECRET}@127.0.0.1:1/0",
    f"redis://me:{SECRET}@[::1/0",
    f"redis://me:{SECRET}@127.0.0.1:1/database",
    f"redis://127.0.0.1:1/0?password={SECRET}&socket_timeout=soon",
    f"redis:{SECRET}",
    f"rediss://me:{SECRET}@127.0.0.1:1/0",
    f"redis://me:{SECRET}@127.0.0.1:1/0",
]
OTHERS = [f"ftp://me:{SECRET}@127.0.0.1/", f"{SECRET}://me@127.0.0.1", f"//me:{SECRET}@127.0.0.1"]

MESSAGES = [
    *({"storage": "postgres", "dsn": dsn, "timeout": 0.1} for dsn in POSTGRES),
    *({"storage": "mongodb", "uri": uri, "timeout": 0.1} for uri in MONGODB),
    *OTHERS,
    {"storage": "postgres", "dsn": 1, "password": SECRET},
    {"storage": "postgres", "dns": f"postgresql://me:{SECRET}@127.0.0.1"},
    {"storage": "mongodb", "uri": [SECRET]},
]
MEMORIES = [
    # A message store reads the address in the same way: one it cannot parse, and one without a
    # server. The option is not a message store's.
    *(
        {"storage": "postgres", "dsn": POSTGRES[number], "timeout": 0.1, "lock_timeout": 1}
        for number in (0, 2, -1)
    ),
    *({"storage": "redis", "url": url, "timeout": 0.1} for url in REDIS),
    *OTHERS,
]


def assert_kept(
    error: BaseException, caplog: pytest.LogCaptureFixture, secret: str = SECRET
) -> None:
    """Fail if the secret is in the error, in its cause or context, or in any log record."""
    chain: list[BaseException] = [error]
    for raised in chain:
        assert secret not in f"{raised} {raised!r} {raised.args!r}"
        chain += [more for more in (raised.__cause__, raised.__context__) if more is not None]
    assert secret not in "".join(traceback.format_exception(error))
    for record in caplog.records:
        assert secret not in f"{record.getMessage()} {record.__dict__!r}"


def opening(open_store: Callable[[Any], Any], config: Any) -> BaseException:
    try:
        open_store(config)
    except (ConfigurationError, StoreUnavailableError) as error:
        return error
    raise AssertionError("the address was accepted")


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        *((MessageStore, config) for config in MESSAGES),
        *((WorkingMemoryStore, config) for config in MEMORIES),
    ],
    ids=lambda _: "",
)
def test_no_address_is_repeated(kind: Any, config: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    assert_kept(opening(kind.initialize, config), caplog)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("name", "read", "write"),
    [("postgres", "ping", "store_turn"), ("postgres_memory", "get", "locked")],
)
def test_no_password_is_shown_while_the_network_fails(
    name: str, read: str, write: str, api: str, caplog: pytest.LogCaptureFixture
) -> None:
    password = str(conninfo_to_dict(postgres.dsn()).get("password"))
    caplog.set_level(logging.DEBUG)
    with opened(name, api, timeout=0.5) as store:
        store.prepare()
        store.proxy.cut()
        store.call(read)
        store.proxy.swallow_replies = True
        error, _ = store.call(write)
        store.proxy.swallow_replies = False

        assert is_unavailable(error)
        assert_kept(error, caplog, password)
        assert password not in f"{store.store!r} {vars(store.store)!r}"
