"""Google's ADK: DatabaseSessionService."""

from __future__ import annotations

from typing import Any

from benchmarks.rivals.store import EVERYTHING, Said, Store, id_in

APP = "desk"
RELOADS = 200
"""How often an append is tried again on a reloaded session, as the error asks for."""

RECENT = 20
"""How many events of a session are loaded to append to it."""


class Service(Store):
    """Each event is appended by itself: there is no call for several.

    A session that another process has changed is loaded again, and so is one after an error: the
    service refuses an event that is stored, so that the caller has to look which ones are.
    """

    imports = "from google.adk.sessions import DatabaseSessionService"

    async def open(self, place: str) -> None:
        from google.adk.sessions import DatabaseSessionService

        scheme, _, rest = place.rpartition(":/")
        url = f"postgresql+asyncpg:/{rest}" if scheme else f"sqlite+aiosqlite:///{place}"
        self._service, self._sessions = DatabaseSessionService(url), dict[str, Any]()
        await self._service.prepare_tables()

    async def create(self, session: str, user: str, title: str) -> None:
        state = {"title": title, "user:name": user}
        self._sessions[session] = await self._service.create_session(
            app_name=APP, user_id=user, session_id=session, state=state
        )

    async def add(self, session: str, user: str, messages: list[Said]) -> None:
        from google.adk.errors._stale_session_error import StaleSessionError

        events = list(map(_event, messages))
        for _ in range(RELOADS):
            if session not in self._sessions:
                loaded = self._sessions[session] = await self._load(session, user, RECENT)
                stored = {event.id for event in loaded.events}
                events = [event for event in events if event.id not in stored]
            try:
                while events:
                    await self._service.append_event(self._sessions[session], events[0])
                    del events[0]
                return
            except StaleSessionError:
                del self._sessions[session]
            except Exception:
                del self._sessions[session]
                raise
        raise RuntimeError(f"changed by others {RELOADS} times")

    def parts(self, messages: list[Said]) -> list[list[Said]]:
        return [[message] for message in messages]

    async def newest(self, session: str, user: str, count: int) -> list[Said]:
        return list(map(_said, (await self._load(session, user, count)).events))

    async def erase(self, user: str, sessions: list[str]) -> None:
        for session in sessions:
            await self._service.delete_session(app_name=APP, user_id=user, session_id=session)

    async def close(self) -> None:
        await self._service.close()

    async def _load(self, session: str, user: str, count: int) -> Any:
        from google.adk.sessions.base_session_service import GetSessionConfig

        recent = None if count == EVERYTHING else GetSessionConfig(num_recent_events=count)
        return await self._service.get_session(
            app_name=APP, user_id=user, session_id=session, config=recent
        )


def _event(message: Said) -> Any:
    from google.adk.events.event import Event
    from google.genai import types

    if message["role"] == "tool":
        result = {"text": message["text"]}
        part = types.Part(
            function_response=types.FunctionResponse(
                id=message["call"], name="track", response=result
            )
        )
    elif message["call"]:
        arguments = {"text": message["text"]}
        call = types.FunctionCall(id=message["call"], name="track", args=arguments)
        part = types.Part(function_call=call)
    else:
        part = types.Part(text=message["text"])
    mine = message["role"] == "assistant"
    content = types.Content(role="model" if mine else "user", parts=[part])
    return Event(id=message["id"], author=APP if mine else "user", content=content)


def _said(event: Any) -> Said:
    part = event.content.parts[0]
    if response := part.function_response:
        text, role, call = response.response["text"], "tool", response.id
    elif made := part.function_call:
        text, role, call = made.args["text"], "assistant", made.id
    else:
        text, call = part.text, ""
        role = "user" if event.author == "user" else "assistant"
    return {"id": id_in(text), "role": role, "text": text, "call": call}
