"""The Markdown of an answer as HTML: no HTML of the answer's own, no images, no odd addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

__all__ = ["markdown"]

_ADDRESS = re.compile(r"(https?://|mailto:|#)", re.IGNORECASE)
_PLAIN = {"paragraph_open", "paragraph_close", "inline", "text", "softbreak"}

# The headings of a page: its own, and that of each message. Those of an answer come below.
_HEADINGS_ABOVE = 2

_PARSER = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": 20})
_PARSER.enable(["table", "strikethrough"])
# An address without a protocol would lead to another page of the inspector.
vars(_PARSER)["validateLink"] = lambda address: _ADDRESS.match(address) is not None


def markdown(text: str) -> Markup | None:
    """Return Markdown as HTML that runs nothing and loads nothing; None if it has no markup."""
    tokens = _PARSER.parse(text)
    parts = (part for token in tokens for part in (token, *(token.children or ())))
    if all(part.type in _PLAIN for part in parts):
        return None
    for token in tokens:
        token.attrs.pop("style", None)  # the alignment of a column, which the page's policy forbids
        if token.type.startswith("heading_"):
            token.tag = f"h{min(int(token.tag[1]) + _HEADINGS_ABOVE, 6)}"
        if token.children:
            token.children = list(_without_pictures(token.children))
    return Markup(_PARSER.renderer.render(tokens, _PARSER.options, {}))


def _without_pictures(tokens: Iterable[Token]) -> Iterable[Token]:
    """Yield the parts of a line; a picture becomes a link to it with its alternative text."""
    is_linked = False
    for token in tokens:
        if token.type in ("link_open", "link_close"):
            is_linked = token.type == "link_open"
        if token.type == "link_open":
            token.attrs["rel"] = "noreferrer"
        if token.type != "image":
            yield token
            continue
        name = Token("text", "", 0, content=token.content or "picture")
        address = token.attrs["src"]
        if is_linked or not address:
            yield name
        else:
            yield Token("link_open", "a", 1, attrs={"href": address, "rel": "noreferrer"})
            yield name
            yield Token("link_close", "a", -1)
