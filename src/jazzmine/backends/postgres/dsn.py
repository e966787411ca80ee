"""Read a DSN: the addresses of the servers, and the secrets that must not be shown."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from jazzmine.backends.addresses import wrong_option
from jazzmine.deadline import milliseconds
from jazzmine.errors import InvalidAddressError

__all__ = ["Address"]

# Linux refuses more, in s (https://man7.org/linux/man-pages/man7/tcp.7.html).
_LONGEST_KEEPALIVE = 32767


@dataclass(frozen=True)
class Address:
    """The address of a server, or of several servers with the same data.

    Args:
        conninfo: the connection string for libpq.
        name: host and port, for error messages.
        secrets: texts that must not be in error messages.
        servers: the connection string for each of them.
    """

    conninfo: str = field(repr=False)
    name: str
    secrets: tuple[str, ...] = field(repr=False)
    servers: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, dsn: str, timeout: float = 30.0, options: Iterable[str] = ()) -> Address:
        """Return the address that a DSN describes.

        Args:
            timeout: the longest time of a call, in s; a connection that is lost silently is
                detected within this time, unless the DSN sets other times.
            options: the store's own options, one of which an unknown one may mean.

        Raises:
            InvalidAddressError: libpq cannot parse it, or would use a part of it as a host, a port
                or a database that is probably part of a password with an unescaped "@", "/"
                or ":".
        """
        parts = _parts(dsn, options)
        if isinstance(parts, str):
            raise InvalidAddressError(f"the PostgreSQL address can't be parsed{parts or _FORM}")
        host, port = str(parts.get("host") or ""), str(parts.get("port") or "")
        ports = [number for number in port.split(",") if number]
        if "@" in host or not all(number.isdecimal() and int(number) < 65536 for number in ports):
            raise _refused()
        if "://" in dsn and "@" in str(parts.get("dbname") or ""):
            raise _refused()
        secrets = (parts.get("password"), parts.get("sslpassword"), os.environ.get("PGPASSWORD"))
        servers = list(_servers(parts))
        own: dict[str, str | int] = {"client_encoding": "utf8", **_keepalives(parts, timeout)}
        if not _part(parts, "connect_timeout"):
            # So a call can try all of them. psycopg waits for whole seconds, 2 at least.
            own["connect_timeout"] = max(2, math.ceil(timeout / (len(servers) + 1)))
        conninfo = make_conninfo(dsn, **own)
        return cls(
            conninfo,
            _name(host, port),
            tuple(str(secret) for secret in secrets if secret),
            tuple(make_conninfo(conninfo, **server) for server in servers),
        )

    def contains_secret(self, error: BaseException) -> bool:
        """Return whether the text of an error contains a secret."""
        text = str(error)
        return any(secret in text for secret in self.secrets)

    def redacted(self, error: BaseException) -> BaseException | None:
        """Return the error for use as a cause, or None if it contains a secret."""
        return None if self.contains_secret(error) else error


def _parts(dsn: str, options: Iterable[str]) -> dict[str, Any] | str:
    """Return the parameters of a DSN, or which option libpq refused, "" if it was no option."""
    # The caller raises its error outside of this except block: otherwise the context would have
    # libpq's text, which repeats the part that it could not parse.
    try:
        return dict(conninfo_to_dict(dsn))
    except psycopg.Error as error:
        known = [option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()]
        return wrong_option(dsn, error, known, options)


_FORM = (
    ": it is a URL, postgresql://USER:PASSWORD@HOST:PORT/DATABASE, in which special characters of"
    " the password are percent-encoded, or key=value pairs, with no other parameters than libpq's"
)


def _refused() -> InvalidAddressError:
    return InvalidAddressError(f"the PostgreSQL address can't be parsed{_FORM}")


# https://www.postgresql.org/docs/current/libpq-envars.html
_VARIABLES = {
    "host": "PGHOST",
    "port": "PGPORT",
    "hostaddr": "PGHOSTADDR",
    "connect_timeout": "PGCONNECT_TIMEOUT",
}


def _part(parts: Mapping[str, Any], key: str) -> str:
    return str(parts.get(key) or os.environ.get(_VARIABLES[key]) or "")


def _keepalives(parts: Mapping[str, Any], timeout: float) -> dict[str, int]:
    # These options close a connection that a firewall has dropped, if it is idle (in seconds), or
    # has sent data that is not acknowledged (in milliseconds).
    own = {
        "keepalives_idle": min(max(1, math.ceil(timeout / 2)), _LONGEST_KEEPALIVE),
        "keepalives_interval": min(max(1, math.ceil(timeout / 6)), _LONGEST_KEEPALIVE),
        "keepalives_count": 3,
        "tcp_user_timeout": max(1000, min(milliseconds(timeout), 2**31 - 1)),
    }
    if str(parts.get("keepalives")) == "0":
        return {}
    return {key: value for key, value in own.items() if key not in parts}


def _servers(parts: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield what names each of the servers."""
    lists = {key: _part(parts, key).split(",") for key in ("host", "hostaddr", "port")}
    count = max(map(len, lists.values()))
    if any(len(values) not in (1, count) for values in lists.values()):
        raise _refused()
    for place in range(count):
        # A list that is not given has one empty part.
        yield {
            key: values[place if len(values) > 1 else 0]
            for key, values in lists.items()
            if any(values)
        }


def _name(host: str, port: str) -> str:
    host = host or os.environ.get("PGHOST") or "the local server"
    port = port or os.environ.get("PGPORT") or "5432"
    if "," not in host:
        return f"{host}:{port}"
    hosts = host.split(",")
    ports = port.split(",") if "," in port else [port] * len(hosts)
    return ",".join(f"{host}:{number}" for host, number in zip(hosts, ports, strict=False))
