"""Explain why a driver refuses the address of a server."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from urllib.parse import parse_qs


def wrong_option(url: str, error: Exception, drivers: Iterable[str], own: Collection[str]) -> str:
    """Return the end of an error's text: the option of a URL that a driver refused, or "".

    A part of a password that holds a question mark looks like an option: only known names are
    repeated.

    Args:
        error: the error of the driver; its text names the option, or says that one is unknown.
        drivers: the names of the driver's options.
        own: the names of the store's own options.
    """
    accepted = {name.lower(): name for name in (*drivers, *own)}
    is_unknown = "unknown option" in str(error).lower()  # PyMongo 4.20.1 does not say which one
    for name in parse_qs(url.partition("?")[2], keep_blank_values=True):
        is_named = re.search(rf"\b{re.escape(name)}\b", str(error), re.IGNORECASE)
        if name in own and (is_named or is_unknown):
            # Of a URL that is the whole configuration, the store has taken its options already.
            return f": {name!r} is an option of the store; give it as a key beside the address"
        if name.lower() in accepted:
            if is_named:
                return f": the value of {name!r} is wrong"
        elif is_named or is_unknown:
            nearest = get_close_matches(name.lower(), accepted, 1)
            meant = f"; did you mean {accepted[nearest[0]]!r}?" if nearest else ""
            return ": it has an unknown option" + meant
    return ""
