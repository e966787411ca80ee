"""What is wrong with the address of a server that a driver refuses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from urllib.parse import parse_qs

__all__ = ["wrong_option"]


def wrong_option(url: str, error: Exception, drivers: Iterable[str], own: Iterable[str]) -> str:
    """Return the end of an error's text: which option of a URL a driver refused; "" if none.

    A part of a password that holds a question mark looks like an option: only known names are
    repeated.

    Args:
        error: what the driver raised; its text has the option's name, or says that it is unknown
            (PyMongo from 4.20.1).
        drivers: the names of the driver's options.
        own: the names of the store's own options, which may be meant as well.
    """
    accepted = {name.lower(): name for name in (*drivers, *own)}
    is_nameless = "unknown option." in str(error).lower()
    for name in parse_qs(url.partition("?")[2], keep_blank_values=True):
        is_known = name.lower() in accepted
        is_named = re.search(rf"\b{re.escape(name)}\b", str(error), re.IGNORECASE)
        if is_known if is_nameless else not is_named:
            continue
        if is_known:
            return f": the value of {name!r} is wrong"
        nearest = get_close_matches(name.lower(), accepted, 1)
        meant = f"; did you mean {accepted[nearest[0]]!r}?" if nearest else ""
        return ": it has an unknown option" + meant
    return ""
