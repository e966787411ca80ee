"""What the async and the sync store know about redis-py alike: its errors and its clients."""

from __future__ import annotations

import re
from enum import Enum, auto
from inspect import signature
from types import ModuleType
from typing import Any

from jazzmine.errors import ConfigurationError, StoreUnavailableError
from jazzmine.extras import extra


def redis_driver() -> ModuleType:
    """Return redis-py.

    Raises:
        ImportError: it is not installed.
    """
    with extra("redis", "working memory in Redis"):
        import redis
    return redis


class Remedy(Enum):
    """What to do about a command that failed."""

    GIVE_UP = auto()  # nothing helps: the server has refused it, or the client's credentials
    RECONNECT = auto()  # repeat it over another connection
    WAIT = auto()  # repeat it


# Before Redis 7 the error of a command in a script stands within another text.
_PASSING = re.compile(
    r"(?:^|[ -])(?:BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|NOREPLICAS|READONLY|TRYAGAIN|UNBLOCKED) "
)
# Each new connection selects its database; a node of a cluster has one alone.
_NO_DATABASE = ("DB index is out of range", "SELECT is not allowed in cluster mode")


def remedy_for(error: BaseException) -> Remedy:
    """Say what to do about an error of redis-py or of the network."""
    known = redis_driver().exceptions
    if isinstance(error, (known.AskError, known.AuthenticationError, known.AuthorizationError)):
        return Remedy.GIVE_UP
    if lacks_database(error):
        return Remedy.GIVE_UP
    if isinstance(error, known.MaxConnectionsError):
        return Remedy.WAIT
    passing = isinstance(error, (known.ClusterError, known.ReadOnlyError, known.TryAgainError))
    if isinstance(error, known.ResponseError) and not passing and not _PASSING.search(str(error)):
        return Remedy.GIVE_UP
    return Remedy.RECONNECT


def is_unknown_script(error: BaseException | None) -> bool:
    """Whether a server does not have a script, whose text it needs then."""
    return isinstance(error, redis_driver().exceptions.NoScriptError)


def is_of_another_type(error: BaseException | None) -> bool:
    """Whether a command failed because a key holds another type than the command reads."""
    return isinstance(error, redis_driver().ResponseError) and str(error).startswith("WRONGTYPE ")


def lacks_database(error: BaseException) -> bool:
    """Whether an error says that the server has no database of the client's number."""
    known = redis_driver().exceptions
    return isinstance(error, known.ResponseError) and str(error).startswith(_NO_DATABASE)


def option_names() -> set[str]:
    """Return the names of the options that a URL may have."""
    driver = redis_driver()
    return {*signature(driver.Redis).parameters, *driver.connection.URL_QUERY_ARGUMENT_PARSERS}


def is_cluster(client: Any) -> bool:
    """Whether a client, async or sync, is one of a cluster."""
    return hasattr(client, "nodes_manager")


def settings_of(client: Any) -> dict[str, Any]:
    """Return the settings of a client's connections."""
    owner = client.nodes_manager if is_cluster(client) else client.connection_pool
    default = signature(redis_driver().connection.AbstractConnection).parameters["socket_timeout"]
    return {"socket_timeout": default.default, **owner.connection_kwargs}


def max_connections(client: Any) -> int:
    """Return how many connections a client may open, in a cluster to each node."""
    if is_cluster(client):
        return int(settings_of(client).get("max_connections") or 100)
    return int(client.connection_pool.max_connections)


def address_of(client: Any) -> str:
    """Name the server of a client, without any secret."""
    if is_cluster(client):
        return ", ".join(client.nodes_manager.startup_nodes)
    settings, pool = settings_of(client), client.connection_pool
    if hasattr(pool, "service_name"):
        return f"the master {pool.service_name!r}"
    host, port = settings.get("host", "localhost"), settings.get("port", 6379)
    return str(settings.get("path") or (f"[{host}]:{port}" if ":" in host else f"{host}:{port}"))


def translated(error: BaseException, client: Any) -> Exception:
    """Return the error of this library for one that ended a call, or a connection, of a client."""
    where = f"Redis at {address_of(client)}"
    if isinstance(error, redis_driver().exceptions.AskError):  # MovedError is one
        return ConfigurationError(f"{where} is a node of a cluster: pass a RedisCluster client")
    if lacks_database(error):
        return ConfigurationError(f"{where} has no database of that number: {error}")
    if isinstance(error, redis_driver().ResponseError):
        return StoreUnavailableError(f"{where} refused a command: {error}")
    return StoreUnavailableError(f"{where} is not available: {str(error) or 'no reply in time'}")


def make_connections_of(pool: Any, kind: type) -> Any:
    """Have a pool make connections that are of a class as well.

    Raises:
        TypeError: the pool has an option that a connection does not know.
    """
    pool.connection_class = type("StoreConnection", (kind, pool.connection_class), {})
    pool.connection_class(**pool.connection_kwargs)
    return pool
