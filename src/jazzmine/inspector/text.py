"""How times, numbers, costs and stored text look; each function is a filter of the templates."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from jazzmine.records.timeline import at_least, money, problems, unpriced, unreported
from jazzmine.records.traces import TurnTrace

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Controls, the marks that change the direction of text or hide it, and halves of surrogates.
# Joiners stay between characters beyond ASCII: emoji, Persian and the scripts of India need them.
_NEIGHBOUR = "[^\x00-\x9f\u200b-\u200f]"
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
    f"|(?<!{_NEIGHBOUR})[\u200c\u200d]|[\u200c\u200d](?!{_NEIGHBOUR})"
)

_LONGEST = 20_000

# So many characters of a message are shown before the first word that was found, and in all.
_BEFORE, _SHOWN = 80, 400


def when(ms: int, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """Return a time in ms in UTC, or as it is where no calendar has it."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).strftime(form)
    except OverflowError:
        return f"{ms} ms"


def day_of(ms: int) -> str:
    """Return the day in UTC, as in `Monday, 2 February 2026`."""
    return when(ms, "%A, %d %B %Y").replace(", 0", ", ")


def duration(ms: float) -> str:
    """Return a length of time in ms in the unit that suits it."""
    if abs(ms) < 1_000:
        return f"{round(ms)} ms"
    if abs(ms) < 60_000:
        return f"{ms / 1_000:.1f} s"
    minutes, seconds = divmod(round(ms / 1_000), 60)
    return f"{minutes:,} min {seconds} s"


def number(value: float) -> str:
    """Return a number with separators."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def compact(value: int) -> str:
    """Return a number in five characters or so: 9,500, 12.3k, 4.5M."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if abs(value) >= max(size, 10_000):
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return f"{value:,}"


def cost(usd: float) -> str:
    """Return an amount of money."""
    return f"${money(usd)}"


def cost_of(trace: TurnTrace) -> float | None:
    """Return what the model calls of a turn cost, as far as it is known, in US dollars."""
    costs = [call.cost_usd for call in trace.llm_calls if call.cost_usd is not None]
    return sum(costs) if costs else None


def visible(text: object) -> str:
    """Return stored text with its control characters visible; line breaks and tabs stay."""
    return CONTROLS.sub(_escaped, str(text).replace("\r\n", "\n"))  # as forms of browsers send it


def _escaped(control: re.Match[str]) -> str:
    code = ord(control[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def clipped(text: str, longest: int = _LONGEST) -> str:
    """Return text as `visible` does, its beginning alone if it is long."""
    if len(text) <= longest:
        return visible(text)
    return f"{visible(text[:longest])}\n… {len(text) - longest:,} more characters"


def shortened(text: str, longest: int = 120) -> str:
    """Return the beginning of a text in one line, as `visible` does."""
    line = " ".join(text[: 2 * longest].split())
    return visible(line if len(line) <= longest else f"{line[:longest].rstrip()}…")


def excerpt(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[str, bool]]:
    """Return the part of a text with the first of some spans, in pieces; True for a span."""
    begin = max(0, spans[0][0] - _BEFORE) if spans else 0
    end = min(len(text), begin + _SHOWN)
    pieces = [("…", False)] if begin else []
    position = begin
    for first, last in spans:
        if last > end:
            break
        pieces += [(text[position:first], False), (text[first:last], True)]
        position = last
    pieces += [(text[position:end], False), ("…" if end < len(text) else "", False)]
    return [(visible(piece), is_word) for piece, is_word in pieces if piece]


def pretty(value: Any) -> str:
    """Return a JSON value with indents; its beginning alone if it is long."""
    if isinstance(value, str):
        return clipped(value)
    return clipped(json.dumps(value, ensure_ascii=False, indent=2))


def parts(value: Any) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the messages of what a model was sent or answered, where it is a list of messages.

    Each has its role (or type), its text, and its other fields, content that is no text included.
    """
    elements = value if isinstance(value, list) else [value]
    if not all(isinstance(element, dict) for element in elements):
        return []
    if not any(isinstance(element.get("role"), str) for element in elements):
        return []
    return list(map(_part, elements))


def _part(element: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    name = "role" if isinstance(element.get("role"), str) else "type"
    content = element.get("content")
    blocks = content if isinstance(content, list) else [content]
    texts: list[Any] = [block.get("text") if isinstance(block, dict) else block for block in blocks]
    is_text = bool(texts) and all(isinstance(text, str) for text in texts)
    shown = {name, "content"} if is_text else {name}
    others = {
        key: field for key, field in element.items() if key not in shown and field is not None
    }
    return str(element.get(name, "")), "\n\n".join(texts) if is_text else "", others


def address(path: str, **parameters: object) -> str:
    """Return a path with those parameters that have a value."""
    fields = {name: value for name, value in parameters.items() if value not in (None, "", False)}
    # Relative, so that a proxy may serve the pages below a path.
    return f".{path}?{urlencode(fields)}" if fields else f".{path}"


FILTERS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        when,
        duration,
        number,
        compact,
        cost,
        cost_of,
        at_least,
        unpriced,
        unreported,
        problems,
        visible,
        clipped,
        shortened,
        parts,
        pretty,
    )
}
