"""The page on moving from Google ADK's sessions, with its own sessions in a database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions import DatabaseSessionService

from jazzmine.adapters.google_adk import JazzmineSessionService
from tests.adapters.processes import ROOT
from tests.adapters.scripted_google_adk import changing, opened, said
from tests.examples.test_documentation import blocks_of


async def test_sessions_in_a_database_are_copied_and_compared(tmp_path: Path) -> None:
    page: dict[str, Any] = {}
    exec(next(iter(blocks_of(ROOT / "docs/moving/google_adk.md"))).text, page)
    old = DatabaseSessionService(f"sqlite+aiosqlite:///{tmp_path / 'old.db'}")
    places: list[dict[str, Any]] = [
        {"app_name": "a1", "user_id": user, "session_id": name}
        for user in ("u1", "u2")
        for name in ("s1", "s2")
    ]
    for place in places:
        session = await old.create_session(**place, state={"begun": 1, "user:b": place["user_id"]})
        events: list[Event] = [
            event
            for number in range(60)
            for event in (
                said(f"Hi {number}"),
                changing({"k": number, "user:k": number, "app:k": number}),
            )
        ]
        for event in events:
            await old.append_event(session, event)

    async with opened({"storage": "sqlite", "path": str(tmp_path / "new.db")}) as new:
        assert isinstance(new, JazzmineSessionService)
        for _ in range(2):  # it may be repeated
            assert await page["copy_sessions"](old, new, "a1") == 4
        for place in places:
            theirs, ours = await old.get_session(**place), await new.get_session(**place)
            assert theirs is not None
            assert ours is not None
            assert (ours.events, ours.state) == (theirs.events, theirs.state)
        assert len((await new.list_sessions(app_name="a1")).sessions) == 4
    await old.close()
