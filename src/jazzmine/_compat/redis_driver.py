"""What the async and the sync store know about redis-py alike: its errors and its clients."""

from __future__ import annotations

import re
from enum import Enum, auto
from inspect import signature
from types import ModuleType
from typing import Any

__all__ = [
    "Remedy",
    "address_of",
    "has_time_limit",
    "is_cluster",
    "max_connections",
    "redis_driver",
    "remedy_for",
]


def redis_driver() -> ModuleType:
    """Return redis-py.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import redis
    except ImportError as error:
        raise ImportError(
            "working memory in Redis needs the driver redis-py: pip install 'jazzmine[redis]'"
        ) from error
    return redis


class Remedy(Enum):
    """What to do about a command that failed."""

    GIVE_UP = auto()  # nothing helps: wrong credentials
    LOAD_SCRIPT = auto()  # send the text of the script
    RAISE = auto()  # it is the server's answer
    RECONNECT = auto()  # repeat it over another connection
    USE_CLUSTER = auto()  # nothing helps: the client is not made for a cluster
    WAIT = auto()  # repeat it


_REMEDIES = {
    "AskError": Remedy.USE_CLUSTER,
    "AuthenticationError": Remedy.GIVE_UP,
    "AuthorizationError": Remedy.GIVE_UP,
    "ClusterDownError": Remedy.WAIT,
    "MasterDownError": Remedy.WAIT,
    "MaxConnectionsError": Remedy.WAIT,
    "MovedError": Remedy.USE_CLUSTER,
    "NoScriptError": Remedy.LOAD_SCRIPT,
    "ReadOnlyError": Remedy.RECONNECT,
    "TryAgainError": Remedy.WAIT,
}
# Before Redis 7 the error of a command in a script stands within another text.
_WAIT = re.compile(r"(?:^|[ -])(?:BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|NOREPLICAS|TRYAGAIN) ")
_RECONNECT = re.compile(r"(?:^|[ -])(?:READONLY|UNBLOCKED) ")


def remedy_for(error: BaseException) -> Remedy:
    """Say what to do about an error of redis-py or of the network."""
    driver, text = redis_driver(), str(error)
    if remedy := _REMEDIES.get(type(error).__name__):
        return remedy
    if _WAIT.search(text):
        return Remedy.WAIT
    if not isinstance(error, driver.ResponseError) or _RECONNECT.search(text):
        return Remedy.RECONNECT
    return Remedy.USE_CLUSTER if text.startswith(("MOVED ", "ASK ")) else Remedy.RAISE


def is_cluster(client: Any) -> bool:
    """Whether a client, async or sync, is one of a cluster."""
    return hasattr(client, "nodes_manager")


def settings_of(client: Any) -> dict[str, Any]:
    """Return what a client makes its connections with."""
    owner = client.nodes_manager if is_cluster(client) else client.connection_pool
    settings: dict[str, Any] = owner.connection_kwargs
    return settings


def has_time_limit(client: Any) -> bool:
    """Whether a client's own settings limit how long it waits for a reply."""
    connection = redis_driver().connection.AbstractConnection
    default = signature(connection).parameters["socket_timeout"].default
    return settings_of(client).get("socket_timeout", default) is not None


def max_connections(client: Any) -> int:
    """Return how many connections a client may open, in a cluster to each node."""
    if is_cluster(client):
        return int(settings_of(client).get("max_connections") or 100)
    return int(client.connection_pool.max_connections)


def address_of(client: Any) -> str:
    """Name the server of a client, without any secret."""
    if is_cluster(client):
        return ", ".join(client.nodes_manager.startup_nodes)
    settings, service = settings_of(client), getattr(client.connection_pool, "service_name", None)
    if service is not None:
        return f"the master {service!r}"
    if "path" in settings:
        return str(settings["path"])
    host, port = settings.get("host", "localhost"), settings.get("port", 6379)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
