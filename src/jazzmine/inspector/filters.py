"""The filters of traces as parameters of an address, so that a view can be shared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta

from jazzmine.records.usage import TraceFilter

DAY = 86_400_000


class BadFilter(ValueError):
    """A parameter of the address has a value that it cannot have."""


@dataclass(frozen=True)
class TurnFilter:
    """Which turns a page shows; "" is no filter.

    Attributes:
        since: the first day, as in 2026-01-31, UTC.
        until: the last day.
        errors: "yes" for turns with errors alone.
    """

    agent: str = ""
    user: str = ""
    intent: str = ""
    model: str = ""
    since: str = ""
    until: str = ""
    errors: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> TurnFilter:
        """Return the filter of an address."""
        return cls(**{name: parameters.get(name, "").strip() for name in cls.__dataclass_fields__})

    def with_(self, **changes: str) -> dict[str, str]:
        """Return the parameters of the address that are set, with some of them changed."""
        changed = {**asdict(self), **changes}
        return {name: value for name, value in changed.items() if value}

    def where(self) -> TraceFilter:
        """Return the filter for the store.

        Raises:
            BadFilter: a day is not one, or the last one is before the first.
        """
        begin, end = _ms(self.since, "since"), _ms(self.until, "until")
        if begin is not None and end is not None and end < begin:
            raise BadFilter(f"“until” ({self.until}) is before “since” ({self.since})")
        return TraceFilter(
            agent_id=self.agent or None,
            user_id=self.user or None,
            intent=self.intent or None,
            llm_call={"model": self.model} if self.model else None,
            started_from=begin,
            started_until=None if end is None else end + DAY,
            has_errors=True if self.errors else None,
        )


def days_ago(days: int) -> str:
    """Return the first of the last `days` days, today included."""
    return str(datetime.now(UTC).date() - timedelta(days=days - 1))


def _ms(day: str, name: str) -> int | None:
    if not day:
        return None
    try:
        return (date.fromisoformat(day) - date(1970, 1, 1)).days * DAY
    except ValueError:
        raise BadFilter(f"“{name}” is a day such as 2026-01-31, not “{day}”") from None
