"""Find the nearest known word to a mistyped one."""

from __future__ import annotations

from collections.abc import Iterable


def hint(wrong: str, allowed: Iterable[str]) -> str:
    """Return the end of an error's text: the nearest of the allowed names, and all of them."""
    import difflib  # most programs never need it

    allowed = list(allowed)
    nearest = difflib.get_close_matches(wrong, allowed, n=1, cutoff=0.5)
    meant = f"; did you mean {nearest[0]!r}?" if nearest else ";"
    return f"{meant} allowed: {', '.join(allowed)}"
