"""How times, numbers, costs and stored text look; each function is a filter of the templates."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from jazzmine.inspector.prompts import parts
from jazzmine.records.timeline import at_least, money, problems, unpriced, unreported
from jazzmine.records.traces import TurnTrace

__all__ = ["FILTERS", "address", "day_of", "excerpt"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Control characters, which HTML does not allow, and marks that change the direction of the text
# around them. Joiners stay: emoji and some scripts need them.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")

_LONGEST = 20_000

# So many characters of a message are shown before the first word that was found, and in all.
_BEFORE, _SHOWN = 80, 400


def _moment(ms: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return None


def when(ms: int) -> str:
    """Return a time in ms as date and time in UTC."""
    moment = _moment(ms)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else f"{ms} ms"


def iso(ms: int) -> str:
    """Return a time in ms as `<time datetime>` has it."""
    moment = _moment(ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}Z" if moment else ""


def clock(ms: int) -> str:
    """Return the time of day, in UTC."""
    moment = _moment(ms)
    return f"{moment:%H:%M}" if moment else f"{ms} ms"


def clock_s(ms: int) -> str:
    """Return the time of day with seconds, in UTC."""
    moment = _moment(ms)
    return f"{moment:%H:%M:%S}" if moment else f"{ms} ms"


def day_of(ms: int) -> str:
    """Return the day in UTC, as in `Monday, 2 February 2026`."""
    moment = _moment(ms)
    return f"{moment:%A}, {moment.day} {moment:%B %Y}" if moment else "Beyond the calendar"


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
    """Return stored text with its control characters visible."""
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", str(text))


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


def address(path: str, **parameters: object) -> str:
    """Return a path with those parameters that have a value."""
    return with_parameters(path, parameters)


def with_parameters(path: str, parameters: Mapping[str, object]) -> str:
    """Return a path with those parameters that have a value."""
    fields = {name: value for name, value in parameters.items() if value not in (None, "", False)}
    # Relative, so that a proxy may serve the pages below a path.
    return f".{path}?{urlencode(fields)}" if fields else f".{path}"


FILTERS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        when,
        iso,
        clock,
        clock_s,
        day_of,
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
        with_parameters,
    )
}
