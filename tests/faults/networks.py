"""Empty places for stores, and those of a server behind a proxy that can disturb the connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.servers import mongodb, postgres, redis
from tests.servers.proxy import Proxy

Config = dict[str, object]

# An option of the stand-in for MongoDB. Until it ends the transaction of a killed process, or one
# whose abort does not reach it through a silent network, it keeps others from its documents. It
# would also end a transaction that is slow on a busy machine.
BRIEF_TRANSACTIONS = "--transaction-lifetime=2"


@dataclass
class Network:
    """The routes to a server without data: through the proxy, and around it."""

    proxy: Proxy
    through: Config
    beside: Config


def is_memory(name: str) -> bool:
    """Return whether a store of this name in the tests of faults is a working memory."""
    return name in ("memory", "redis", "sqlite_memory", "postgres_memory")


@contextmanager
def config_of(name: str, folder: Path, *mongodb_options: str) -> Iterator[Config]:
    """The configuration of an empty store, by a name such as "sqlite" or "postgres_memory"."""
    place = name.partition("_")[0]
    if place == "json":
        yield {"storage": "json", "path": str(folder / "messages.json"), "fsync": False}
    elif place == "sqlite":
        yield {"storage": "sqlite", "path": str(folder / "agent.db")}
    elif place == "postgres":
        with postgres.empty_schema() as schema:
            yield {"storage": "postgres", "dsn": postgres.dsn(), "schema": schema}
    elif place == "mongodb":
        with mongodb.database(mongodb.url(*mongodb_options)) as config:
            yield config
    elif place == "redis":
        with redis.database() as url:
            yield {"storage": "redis", "url": url}
    else:
        yield {"storage": "memory"}


@contextmanager
def _postgres() -> Iterator[Network]:
    address = postgres.dsn()
    with postgres.empty_schema() as schema, Proxy(postgres.port_of(address)) as proxy:
        dsn = postgres.changed(address, host="127.0.0.1", port=proxy.port)
        config: Config = {"storage": "postgres", "schema": schema, "pool_min": 1, "pool_max": 2}
        yield Network(proxy, {**config, "dsn": dsn}, {**config, "dsn": address})


@contextmanager
def _postgres_memory() -> Iterator[Network]:
    with _postgres() as network:
        for config in (network.through, network.beside):
            config["lock_timeout"] = 5
        yield network


def _behind(proxy: Proxy) -> str:
    # A client that discovers the replica set would connect around the proxy.
    return f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true"


@contextmanager
def _mongodb() -> Iterator[Network]:
    with mongodb.database(mongodb.url(BRIEF_TRANSACTIONS)) as config:
        port = urlsplit(str(config["uri"])).port
        assert port is not None
        with Proxy(port) as proxy:
            yield Network(proxy, {**config, "uri": _behind(proxy)}, config)


@contextmanager
def _redis() -> Iterator[Network]:
    with redis.database() as url, Proxy(urlsplit(url).port or 6379) as proxy:
        config: Config = {"storage": "redis", "lock_timeout": 5}
        yield Network(proxy, {**config, "url": proxy.url}, {**config, "url": url})


NETWORKS: dict[str, Callable[[], AbstractContextManager[Network]]] = {
    "postgres": _postgres,
    "mongodb": _mongodb,
    "redis": _redis,
    "postgres_memory": _postgres_memory,
}
