"""What a DSN says: where the servers are, and what must never be shown."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from jazzmine.errors import InvalidAddressError

__all__ = ["Address", "Endpoint"]

_PASSES = {"prefer-standby": ("standby", "any")}


@dataclass(frozen=True)
class Endpoint:
    """One of the servers that a DSN names; an empty part has libpq's default.

    Args:
        session: what a session there must be good for (`target_session_attrs`), if given.
    """

    host: str
    port: str
    hostaddr: str
    session: str

    @property
    def is_resolved(self) -> bool:
        """Whether no address of the host has to be looked up."""
        return bool(self.hostaddr) or not self.host or self.host.startswith(("/", "@"))


@dataclass(frozen=True)
class Address:
    """The address of a server, or of several that hold the same data.

    Args:
        conninfo: all that libpq needs to connect.
        name: host and port, to be shown.
        secrets: what must not be shown.
        endpoints: the servers, in the order of preference.
        connect_timeout: how long connecting to one of them may take, in s, or None.
        is_shuffled: whether each connection tries the servers in a random order.
    """

    conninfo: str = field(repr=False)
    name: str
    secrets: tuple[str, ...] = field(repr=False)
    endpoints: tuple[Endpoint, ...]
    connect_timeout: float | None
    is_shuffled: bool

    @classmethod
    def of(cls, dsn: str, timeout: float = 30.0) -> Address:
        """Read a DSN.

        Args:
            timeout: the deadline of a call, in s: a connection that is lost without a word is
                noticed by then, unless the DSN says otherwise.

        Raises:
            InvalidAddressError: libpq can't parse it, or would take a part of it, likely of a
                password with an unescaped "@", "/" or ":", for a host, a port or a database.
        """
        parts = _parts(dsn)
        if parts is None:
            raise _refused()
        host, port = str(parts.get("host") or ""), str(parts.get("port") or "")
        ports = [one for one in port.split(",") if one]
        if "@" in host or not all(one.isdecimal() and int(one) < 65536 for one in ports):
            raise _refused()
        if "://" in dsn and "@" in str(parts.get("dbname") or ""):
            raise _refused()
        secrets = (parts.get("password"), parts.get("sslpassword"), os.environ.get("PGPASSWORD"))
        return cls(
            make_conninfo(dsn, client_encoding="utf8", **_keepalives(parts, timeout)),
            _name(host, port),
            tuple(str(secret) for secret in secrets if secret),
            _endpoints(parts),
            _connect_timeout(parts),
            _part(parts, "load_balance_hosts") == "random",
        )

    def attempts(self) -> list[Endpoint]:
        """Return the servers in the order in which a new connection tries them."""
        endpoints = list(self.endpoints)
        if self.is_shuffled:
            random.shuffle(endpoints)
        sessions = _PASSES.get(endpoints[0].session, ("",))
        return [
            Endpoint(one.host, one.port, one.hostaddr, session or one.session)
            for session in sessions
            for one in endpoints
        ]

    def conninfo_of(self, endpoint: Endpoint, hostaddr: str) -> str:
        """Return what libpq needs to connect to one server at one of its addresses."""
        parts = {"host": endpoint.host, "port": endpoint.port, "hostaddr": hostaddr}
        if len(self.endpoints) == 1:
            # What the DSN leaves out may come from a service file.
            parts = {key: value for key, value in parts.items() if value}
        if endpoint.session:
            parts["target_session_attrs"] = endpoint.session
        return make_conninfo(self.conninfo, **parts)

    def contains_secret(self, error: BaseException) -> bool:
        """Whether the error's text holds a secret."""
        text = str(error)
        return any(secret in text for secret in self.secrets)

    def redacted(self, error: BaseException) -> BaseException | None:
        """Return the error if it may be the cause that an error of ours names."""
        return None if self.contains_secret(error) else error


def _parts(dsn: str) -> dict[str, Any] | None:
    # Raised elsewhere, the refusal has no context: libpq's text repeats what it could not parse.
    try:
        return dict(conninfo_to_dict(dsn))
    except psycopg.Error:
        return None


def _refused() -> InvalidAddressError:
    return InvalidAddressError(
        "the PostgreSQL address can't be parsed: it is a URL,"
        " postgresql://USER:PASSWORD@HOST:PORT/DATABASE, in which special characters of the"
        " password are percent-encoded, or key=value pairs"
    )


# https://www.postgresql.org/docs/current/libpq-envars.html
_VARIABLES = {
    "host": "PGHOST",
    "port": "PGPORT",
    "hostaddr": "PGHOSTADDR",
    "connect_timeout": "PGCONNECT_TIMEOUT",
    "target_session_attrs": "PGTARGETSESSIONATTRS",
    "load_balance_hosts": "PGLOADBALANCEHOSTS",
}


def _part(parts: Mapping[str, Any], key: str) -> str:
    return str(parts.get(key) or os.environ.get(_VARIABLES[key]) or "")


def _keepalives(parts: Mapping[str, Any], timeout: float) -> dict[str, int]:
    # An idle connection that a firewall forgot is closed, and one that has been sent something.
    # The system measures in whole seconds here, and in milliseconds there.
    own = {
        "keepalives_idle": max(1, math.ceil(timeout / 2)),
        "keepalives_interval": max(1, math.ceil(timeout / 6)),
        "keepalives_count": 3,
        "tcp_user_timeout": max(1000, math.ceil(timeout * 1000)),
    }
    if str(parts.get("keepalives")) == "0":
        return {}
    return {key: min(value, 2**31 - 1) for key, value in own.items() if key not in parts}


def _connect_timeout(parts: Mapping[str, Any]) -> float | None:
    try:
        seconds = float(_part(parts, "connect_timeout") or 0)
    except ValueError:
        raise _refused() from None
    return seconds if seconds > 0 else None


def _endpoints(parts: Mapping[str, Any]) -> tuple[Endpoint, ...]:
    hosts, addresses = (_part(parts, key).split(",") for key in ("host", "hostaddr"))
    ports = _part(parts, "port").split(",")
    count = max(len(hosts), len(addresses))
    if len(ports) == 1:
        ports *= count
    if len(ports) != count or min(len(hosts), len(addresses)) not in (1, count):
        raise _refused()
    # A list that is left out has one empty part.
    hosts, addresses = (one if len(one) == count else [""] * count for one in (hosts, addresses))
    session = _part(parts, "target_session_attrs")
    return tuple(
        Endpoint(host.strip(), port.strip(), address.strip(), session)
        for host, port, address in zip(hosts, ports, addresses, strict=True)
    )


def _name(host: str, port: str) -> str:
    host = host or os.environ.get("PGHOST") or "the local server"
    port = port or os.environ.get("PGPORT") or "5432"
    if "," not in host:
        return f"{host}:{port}"
    hosts = host.split(",")
    ports = port.split(",") if "," in port else [port] * len(hosts)
    return ",".join(f"{one}:{other}" for one, other in zip(hosts, ports, strict=False))
