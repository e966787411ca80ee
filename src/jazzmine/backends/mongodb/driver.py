"""Addresses and options of PyMongo's clients, for both APIs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from bson.codec_options import DatetimeConversion
from pymongo import ReadPreference, WriteConcern
from pymongo.common import VALIDATORS
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.uri_parser import parse_uri

from jazzmine.backends.addresses import wrong_option
from jazzmine.deadline import milliseconds
from jazzmine.errors import InvalidAddressError

# A write returns after a majority has stored it, and reads return only such data: a caller reads
# its own writes, and no data that a failover rolls back.
# https://www.mongodb.com/docs/manual/core/read-isolation-consistency-recency/
DURABLE = WriteConcern("majority", j=True)
MAJORITY = ReadConcern("majority")
SNAPSHOT = ReadConcern("snapshot")
PRIMARY = ReadPreference.PRIMARY

# One document must not make all documents of a reply unreadable. Other programs may have stored
# text that is not UTF-8, and dates beyond the years of Python.
# https://pymongo.readthedocs.io/en/stable/api/bson/codec_options.html
LENIENT: dict[str, Any] = {
    "unicode_decode_error_handler": "replace",
    "datetime_conversion": DatetimeConversion.DATETIME_AUTO,
}


def server_names(uri: str, options: Collection[str]) -> str:
    """Return the hosts and ports in a URI, for error messages.

    Args:
        options: the store's own options, as hints for an unknown one.

    Raises:
        InvalidAddressError: the URI cannot be parsed.
    """
    if uri.startswith("mongodb+srv://"):
        # The names of its servers come from DNS, which the client queries when it connects.
        return uri[len("mongodb+srv://") :].partition("/")[0].partition("?")[0].rpartition("@")[2]
    nodes: list[tuple[str, int | None]] = []
    wrong = ""
    try:
        nodes = parse_uri(uri, validate=True, warn=False)["nodelist"]
    except (PyMongoError, KeyError, ValueError, TypeError) as error:
        wrong = wrong_option(uri, error, VALIDATORS, options)
    if not nodes:
        # Raised outside the except block: the driver's error may contain the password.
        raise invalid_address(wrong)
    return ", ".join(host if port is None else f"{host}:{port}" for host, port in nodes)


def invalid_address(wrong: str = "") -> InvalidAddressError:
    """Return the error for a URI that cannot be parsed; the text does not repeat the URI.

    Args:
        wrong: the reason, if it is known.
    """
    return InvalidAddressError(f"uri cannot be parsed{wrong or _FORM}")


_FORM = (
    "; write mongodb://USER:PASSWORD@HOST:PORT/DB?OPTION=VALUE, with known options and with special"
    " characters in the user and password percent-encoded"
)


def client_options(uri: str, timeout: float) -> dict[str, Any]:
    """Return the client options that the URI does not set.

    Args:
        timeout: the deadline of a call, in s.
    """
    # An attempt to connect must leave time for another one. A connection that was idle for long
    # is closed, because a firewall may have dropped it.
    options = {
        "connectTimeoutMS": min(20_000, milliseconds(timeout / 3)),
        "maxIdleTimeMS": 60_000,
    }
    given = uri.partition("?")[2].lower()
    return {name: value for name, value in options.items() if f"{name.lower()}=" not in given}
