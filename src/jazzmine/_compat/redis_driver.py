"""What the Redis driver is asked for in both worlds: where a client connects, what went wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from types import ModuleType
from typing import Any

__all__ = [
    "Address",
    "Dialer",
    "Trouble",
    "diagnose",
    "dialer_of",
    "key_slot",
    "packed",
    "redirection",
    "redis_driver",
    "slot_map",
]

Address = tuple[str, int]

_SLOTS = 16384

# What the stores decide themselves: deadlines, repetitions, and that a reply is bytes.
_OVERRIDDEN = frozenset(
    {
        "decode_responses",
        "encoder_class",
        "encoding",
        "encoding_errors",
        "health_check_interval",
        "legacy_responses",
        "maint_notifications_config",
        "maint_notifications_pool_handler",
        "oss_cluster_maint_notifications_handler",
        "parser_class",
        "protocol",
        "response_callbacks",
        "retry",
        "retry_on_error",
        "retry_on_timeout",
        "socket_connect_timeout",
        "socket_timeout",
    }
)


def redis_driver() -> ModuleType:
    """Return the driver.

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


@dataclass(frozen=True)
class Dialer:
    """How a client connects: its own settings, but for what the stores decide.

    Args:
        make: the class of its connections.
        settings: what its connections are made with.
        nodes: for a cluster, the nodes that the client knows.
        remap: for a cluster, where to connect instead of an address that a node tells.
    """

    make: Callable[..., Any]
    settings: Mapping[str, Any] = field(repr=False)  # with the password
    nodes: tuple[Address, ...] = ()
    remap: Callable[[Address], Address] | None = None

    def connection(self, address: Address | None) -> Any:
        """Return a connection of the driver's, not yet connected.

        Args:
            address: a node of the cluster, or None where there is none.
        """
        settings = dict(self.settings, protocol=2, socket_timeout=None, socket_connect_timeout=None)
        if address is not None:
            settings["host"], settings["port"] = self.remap(address) if self.remap else address
        return self.make(**settings)

    def where(self, address: Address | None) -> str:
        """Name the server, without any secret."""
        if address is None:
            pool = self.settings.get("connection_pool")
            if pool is not None:
                return f"the master {pool.service_name!r}"
            if "path" in self.settings:
                return str(self.settings["path"])
            address = self.settings.get("host", "localhost"), self.settings.get("port", 6379)
        host, port = address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def dialer_of(client: Any) -> Dialer:
    """Find out how a client of either world connects, alone, through Sentinel or to a cluster."""
    pool = getattr(client, "connection_pool", None)
    if pool is not None:
        return Dialer(pool.connection_class, _kept(pool.connection_kwargs))
    manager = client.nodes_manager
    nodes = [*manager.nodes_cache.values(), *manager.startup_nodes.values()]
    source = next(node for node in nodes if getattr(node, "redis_connection", node) is not None)
    pool = source.redis_connection.connection_pool if hasattr(source, "redis_connection") else None
    settings = _kept((pool or source).connection_kwargs)
    settings.pop("redis_connect_func", None)  # it would speak of the client's own map of slots
    return Dialer(
        (pool or source).connection_class,
        settings,
        tuple(dict.fromkeys((str(node.host), int(node.port)) for node in nodes)),
        getattr(manager, "address_remap", None),
    )


def _kept(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in _OVERRIDDEN}


class Trouble(Enum):
    """What a failed command calls for."""

    ANSWER = auto()  # nothing: this is the server's answer
    BROKEN = auto()  # another connection
    DENIED = auto()  # other credentials
    ELSEWHERE = auto()  # another node
    LATER = auto()  # patience
    UNKNOWN_SCRIPT = auto()  # its text


_LATER = re.compile(r"(?:^|[ -])(?:BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|NOREPLICAS|TRYAGAIN) ")
_BROKEN = re.compile(r"(?:^|[ -])(?:READONLY|UNBLOCKED) ")
_NAMED = {
    "AskError": Trouble.ELSEWHERE,
    "AuthenticationError": Trouble.DENIED,
    "AuthorizationError": Trouble.DENIED,
    "BusyLoadingError": Trouble.LATER,
    "ClusterDownError": Trouble.LATER,
    "MasterDownError": Trouble.LATER,
    "MovedError": Trouble.ELSEWHERE,
    "NoScriptError": Trouble.UNKNOWN_SCRIPT,
    "ReadOnlyError": Trouble.BROKEN,
    "TryAgainError": Trouble.LATER,
}


def diagnose(error: BaseException) -> Trouble:
    """Say what an error of the driver, of the network or of the server calls for."""
    named = _NAMED.get(type(error).__name__)
    if named is not None:
        return named
    if not isinstance(error, redis_driver().ResponseError):
        return Trouble.BROKEN
    text = str(error)
    if text.startswith(("MOVED ", "ASK ")):
        return Trouble.ELSEWHERE
    # Before Redis 7 the error of a command in a script stands within another text.
    if _LATER.search(text):
        return Trouble.LATER
    return Trouble.BROKEN if _BROKEN.search(text) else Trouble.ANSWER


def redirection(error: BaseException, asked: Address) -> tuple[int, Address, bool]:
    """Read where a node sends a command: the slot, its node, and whether for this time only.

    Args:
        asked: the node that said so; it may leave its own host out.
    """
    *code, slot, target = str(error).split()
    host, _, port = target.rpartition(":")
    once = code == ["ASK"] or type(error).__name__ == "AskError"
    return int(slot), (host or asked[0], int(port)), once


def packed(command: Sequence[str | bytes | int]) -> bytes:
    """Return a command as it is sent: the driver's own way serves more types, and takes longer."""
    sent, text = b"", f"*{len(command)}\r\n"
    for part in command:
        if type(part) is bytes:
            sent += b"%b$%d\r\n%b\r\n" % (text.encode(), len(part), part)
            text = ""
        else:
            argument = str(part)
            length = len(argument) if argument.isascii() else len(argument.encode())
            text += f"${length}\r\n{argument}\r\n"
    return sent + text.encode()


def key_slot(key: str) -> int:
    """Return the slot of a cluster that a key lies in."""
    redis_driver()
    from redis.crc import key_slot as slot_of

    return int(slot_of(key.encode()))


def slot_map(reply: Iterable[Sequence[Any]], asked: Address) -> list[Address]:
    """Read the reply to CLUSTER SLOTS: the primary of each slot.

    Args:
        asked: the node that replied; it may leave its own host out, and stands in for a slot
            that nobody has: it knows best who got it since.
    """
    slots = [asked] * _SLOTS
    for first, last, primary, *_ in reply:
        host = primary[0].decode() if primary[0] else asked[0]
        slots[first : last + 1] = [(host, int(primary[1]))] * (last + 1 - first)
    return slots
