"""Read a DSN: the addresses of the servers, as errors name them and as libpq needs them."""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from jazzmine.backends.addresses import wrong_option
from jazzmine.errors import InvalidAddressError

# In s. An idle connection that a firewall has dropped is found, or kept open, in this time.
_KEEPALIVES = {"keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3}

_FORM = (
    ": it is a URL, postgresql://USER:PASSWORD@HOST:PORT/DATABASE, in which special characters of"
    " the password are percent-encoded, or key=value pairs, with no other parameters than libpq's"
)


@dataclass(frozen=True)
class Address:
    """The address of a server, or of several servers with the same data, and its name in errors."""

    conninfo: str = field(repr=False)
    name: str

    @classmethod
    def of(cls, dsn: str, timeout: float = 30.0, options: Collection[str] = ()) -> Address:
        """Return the address that a DSN describes, whose unknown options may be the store's own.

        All servers can be tried within the time-out of a call, in s.

        Raises:
            InvalidAddressError: libpq cannot parse it, or would use a part of it as a host, a port
                or a database that is probably part of a password with an unescaped "@", "/"
                or ":".
        """
        parts = _parts(dsn, options)
        if isinstance(parts, str):
            raise InvalidAddressError(f"the PostgreSQL address can't be parsed{parts or _FORM}")
        hosts = _list(parts, "host", "PGHOST", str(parts.get("hostaddr") or "the local server"))
        ports = _list(parts, "port", "PGPORT", "5432")
        if (
            any("@" in host for host in hosts)
            or any(port and not (port.isdecimal() and int(port) < 65536) for port in ports)
            or ("://" in dsn and "@" in str(parts.get("dbname")))
        ):
            raise InvalidAddressError(f"the PostgreSQL address can't be parsed{_FORM}")
        # psycopg waits for whole seconds, 2 at least.
        each = max(2, math.ceil(timeout / (len(hosts) + 1)))
        given = {"connect_timeout": os.environ.get("PGCONNECT_TIMEOUT") or each, **parts}
        conninfo = make_conninfo("", **{**_KEEPALIVES, **given, "client_encoding": "utf8"})
        default = ports[0] if len(ports) == 1 else "5432"
        pairs = zip_longest(hosts, ports[: len(hosts)], fillvalue=default)
        return cls(conninfo, ",".join(f"{host}:{port or 5432}" for host, port in pairs))


def _parts(dsn: str, options: Collection[str]) -> dict[str, Any] | str:
    """Return the parameters of a DSN, or which option libpq refused, "" if it was no option."""
    # The caller raises its error outside of this except block: otherwise the context would have
    # libpq's text, which repeats the part that it could not parse.
    try:
        return dict(conninfo_to_dict(dsn))
    except psycopg.Error as error:
        known = [option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()]
        return wrong_option(dsn, error, known, options)


def _list(parts: dict[str, Any], key: str, variable: str, default: str) -> list[str]:
    """Return the values of a parameter, which libpq may also read from the environment."""
    return str(parts.get(key) or os.environ.get(variable) or default).split(",")
