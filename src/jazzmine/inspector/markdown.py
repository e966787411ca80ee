"""The Markdown of an answer as HTML: no HTML of the answer's own, no images, no odd addresses."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markupsafe import Markup

_ADDRESS = re.compile(r"(https?://|mailto:|#)", re.IGNORECASE)
_PLAIN = {"paragraph_open", "paragraph_close", "inline", "text", "softbreak"}

# The headings of a page: its own, and that of each message. Those of an answer come below.
_HEADINGS_ABOVE = 2

_PARSER = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": 20})
_PARSER.enable(["table", "strikethrough"])
_PARSER.disable("image")  # a picture is a link to it
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
    return Markup(_PARSER.renderer.render(tokens, _PARSER.options, {}))
