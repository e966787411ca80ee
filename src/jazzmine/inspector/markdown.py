"""The Markdown of an answer as HTML: no HTML of the answer's own, no images, no odd addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

__all__ = ["has_markup", "markdown"]

_ADDRESS = re.compile(r"(https?://|mailto:|#)", re.IGNORECASE)
_PLAIN = {"paragraph_open", "paragraph_close", "inline", "text", "softbreak"}

_PARSER = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": 20})
_PARSER.enable(["table", "strikethrough"]).disable("image")
# An address without a protocol would lead to another page of the inspector.
vars(_PARSER)["validateLink"] = lambda address: _ADDRESS.match(address) is not None


def markdown(text: str) -> Markup:
    """Return Markdown as HTML that runs nothing and loads nothing."""
    tokens = _PARSER.parse(text)
    for token in _all(tokens):
        token.attrs.pop("style", None)  # the alignment of a column, which the page's policy forbids
        if token.type == "link_open":
            token.attrs["rel"] = "noreferrer"
    return Markup(_PARSER.renderer.render(tokens, _PARSER.options, {}))


def has_markup(text: str) -> bool:
    """Whether Markdown would show this text otherwise than it is written."""
    return any(token.type not in _PLAIN for token in _all(_PARSER.parse(text)))


def _all(tokens: Iterable[Token]) -> Iterable[Token]:
    for token in tokens:
        yield token
        yield from _all(token.children or ())
