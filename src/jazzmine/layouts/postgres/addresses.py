"""What a DSN says: where the server is, and what must never be shown."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from jazzmine.errors import InvalidAddressError

__all__ = ["Address"]


@dataclass(frozen=True)
class Address:
    """A server's address.

    Args:
        conninfo: all that libpq needs to connect.
        name: host and port, to be shown.
        secrets: what must not be shown.
    """

    conninfo: str = field(repr=False)
    name: str
    secrets: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, dsn: str) -> Address:
        """Read a DSN.

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
            make_conninfo(dsn, client_encoding="utf8"),
            _name(host, port),
            tuple(str(secret) for secret in secrets if secret),
        )

    def betrayed_by(self, error: BaseException) -> bool:
        """Whether the error's text holds a secret."""
        text = str(error)
        return any(secret in text for secret in self.secrets)

    def shown(self, error: BaseException) -> BaseException | None:
        """Return the error if it may be the cause that an error of ours names."""
        return None if self.betrayed_by(error) else error


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


def _name(host: str, port: str) -> str:
    host = host or os.environ.get("PGHOST") or "the local server"
    port = port or os.environ.get("PGPORT") or "5432"
    if "," not in host:
        return f"{host}:{port}"
    hosts = host.split(",")
    ports = port.split(",") if "," in port else [port] * len(hosts)
    return ",".join(f"{one}:{other}" for one, other in zip(hosts, ports, strict=False))
