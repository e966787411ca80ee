"""What the async and the sync store know about redis-py alike: its errors and its clients."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from inspect import signature
from types import ModuleType
from typing import Any

from jazzmine.errors import ConfigurationError, StoreUnavailableError
from jazzmine.extras import extra


@cache
def redis_driver() -> ModuleType:
    """Return redis-py.

    Raises:
        ImportError: it is not installed.
    """
    with extra("redis", "working memory in Redis"):
        import redis
    return redis


# Before Redis 7 the error of a command in a script is within another text.
_PASSING = re.compile(
    r"(?:^|[ -])(?:BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|NOREPLICAS|READONLY|TRYAGAIN|UNBLOCKED) "
)
# Each new connection selects its database; a node of a cluster has one alone.
_NO_DATABASE = ("DB index is out of range", "SELECT is not allowed in cluster mode")


@cache
def failures() -> tuple[type[Exception], ...]:
    """Return the errors that a command of redis-py may fail with."""
    known = redis_driver().exceptions
    return (known.RedisError, known.RedisClusterException, OSError)


def is_transient(error: BaseException) -> bool:
    """Whether a command that failed may succeed when it is repeated."""
    known = redis_driver().exceptions
    if isinstance(error, (known.AskError, known.AuthenticationError, known.AuthorizationError)):
        return False
    if isinstance(error, (known.ClusterError, known.ReadOnlyError, known.TryAgainError)):
        return True
    return not isinstance(error, known.ResponseError) or bool(_PASSING.search(str(error)))


def option_names() -> set[str]:
    """Return the names of the options that a URL may have."""
    driver = redis_driver()
    return {*signature(driver.Redis).parameters, *driver.connection.URL_QUERY_ARGUMENT_PARSERS}


def is_cluster(client: Any) -> bool:
    """Whether a client, async or sync, is one of a cluster."""
    return hasattr(client, "nodes_manager")


def address_of(client: Any) -> str:
    """Name the server of a client, without any secret."""
    if is_cluster(client):
        return ", ".join(client.nodes_manager.startup_nodes)
    pool = client.connection_pool
    if hasattr(pool, "service_name"):
        return f"the master {pool.service_name!r}"
    settings = pool.connection_kwargs
    host, port = settings.get("host", "localhost"), settings.get("port", 6379)
    return str(settings.get("path") or (f"[{host}]:{port}" if ":" in host else f"{host}:{port}"))


def translated(error: BaseException, client: Any, keys: Sequence[bytes] = ()) -> Exception:
    """Return the error of this library for one that ended a call, or a connection, of a client.

    Args:
        keys: what the call was about.
    """
    where = f"Redis at {address_of(client)}"
    if isinstance(error, redis_driver().exceptions.AskError):  # MovedError is one
        return ConfigurationError(f"{where} is a node of a cluster: pass a RedisCluster client")
    if isinstance(error, redis_driver().ResponseError):
        if str(error).startswith(_NO_DATABASE):
            return ConfigurationError(f"{where} has no database of that number: {error}")
        text = f"{where} refused a command: {error}"
        if "WRONGTYPE " in text:
            names = " or ".join(repr(key.decode(errors="replace")) for key in keys)
            text += f": the key {names} is another program's"
        return StoreUnavailableError(text)
    return StoreUnavailableError(f"{where} is not available: {str(error) or 'no reply in time'}")


def connection_settings(seconds: float) -> dict[str, Any]:
    """Return the settings of the connections of a store's own client.

    Args:
        seconds: how long a server is waited for at once, in s.
    """
    return {
        "protocol": 2,
        "socket_timeout": seconds,
        "socket_connect_timeout": seconds,
        "health_check_interval": 30,
    }
