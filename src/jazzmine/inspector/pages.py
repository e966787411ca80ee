"""The pages: each reads from the stores, and renders a template."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from jazzmine.core import (
    Conversation,
    Message,
    MessageRole,
    MessageStore,
    TraceFilter,
    TurnTrace,
    UsageSummary,
    WorkingMemoryStore,
)
from jazzmine.errors import ConfigurationError, JazzmineError, NotFoundError
from jazzmine.inspector.charts import bars, columns
from jazzmine.inspector.filters import TurnFilter, days_ago
from jazzmine.inspector.text import FILTERS, address, day_of, excerpt
from jazzmine.inspector.timeline import timeline

__all__ = ["Pages", "Stores"]

CONVERSATIONS = 50
TURNS = 100
MESSAGES = 1_000
FOUND = 50
NEWEST = 100
# The first text of a user is among so many messages.
FIRST = 5

# Of how many conversations of a user those with an agent are searched for one page.
SEARCHED = 2_000

# A trace began before its answer was stored, and hardly more than this.
LONGEST_TURN = 3_600_000

DAYS = 30


@dataclass(frozen=True)
class Stores:
    """The open stores, and the names of their back ends."""

    messages: MessageStore
    memory: WorkingMemoryStore | None
    messages_in: str
    memory_in: str = ""


@dataclass(frozen=True)
class Row:
    """A conversation of the list.

    Attributes:
        opening: the first text of its user, if it has no title.
        usage: what its turns took; None if no trace is stored.
    """

    conversation: Conversation
    opening: str
    usage: UsageSummary | None


# Conversations, and the id after which the next page begins if there may be one.
_Page: TypeAlias = tuple[list[Conversation], str | None]


@dataclass(frozen=True)
class Entry:
    """A message of a thread.

    Attributes:
        trace: the trace of the turn that it answers, if one is stored.
        day: the day, if the message before it is of another day.
    """

    message: Message
    trace: TurnTrace | None
    day: str = ""


@dataclass(frozen=True)
class Result:
    """A message that was found.

    Attributes:
        excerpt: the part of its text with the first word that was found; each piece with whether
            it is one of the words.
    """

    message: Message
    excerpt: list[tuple[str, bool]]


class Pages:
    """The handlers of all addresses; they only read.

    Ids are parameters, and no parts of a path, because an id may hold any character.
    """

    def __init__(self, stores: Stores) -> None:
        self._store = stores.messages
        self._memory = stores.memory
        self._templates = Environment(
            loader=PackageLoader("jazzmine.inspector"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(FILTERS)
        self._templates.globals.update(address=address, stores=stores)

    def render(self, template: str, status: int = 200, /, **values: Any) -> HTMLResponse:
        """Return a page."""
        return HTMLResponse(self._templates.get_template(template).render(values), status)

    def problem(self, status: int, title: str, text: str, link: str = "/") -> HTMLResponse:
        """Return a page that says what is wrong, and what to do."""
        return self.render("problem.html", status, title=title, text=text, link=link)

    # Conversations

    async def conversations(self, request: Request) -> Response:
        """List conversations, the newest first."""
        asked = {name: request.query_params.get(name, "") for name in ("id", "user", "agent")}
        asked = {name: value.strip() for name, value in asked.items()}
        if asked["id"]:
            place = await self._place_of(asked["id"])
            if place is not None:
                return RedirectResponse(place, 303)
        page: _Page = ([], None)
        if not asked["id"]:
            after = request.query_params.get("after") or None
            page = await self._listed(asked["user"], asked["agent"], after)
        return self.render(
            "conversations.html",
            days=_by_day(await asyncio.gather(*map(self._row, page[0]))),
            asked=asked,
            last=page[1],
            is_first="after" not in request.query_params,
        )

    async def _row(self, conversation: Conversation) -> Row:
        opening = ""
        if not conversation.title:
            first = await self._store.get_messages_by_conversation_id(conversation.id, limit=FIRST)
            texts = (m.original_content for m in first if m.role is MessageRole.USER)
            opening = next(texts, "")
        of_it = TraceFilter(conversation_id=conversation.id)
        usage = await self._store.summarize_usage(of_it, by="conversation")
        return Row(conversation, opening, usage[0] if usage else None)

    async def _place_of(self, some_id: str) -> str | None:
        if await self._store.get_conversation_by_id(some_id) is not None:
            return address("/conversation", id=some_id)
        if await self._store.get_message_by_id(some_id) is not None:
            return address("/turn", message=some_id)
        trace = await self._store.get_turn_trace_by_id(some_id)
        return None if trace is None else address("/turn", message=trace.message_id)

    async def _listed(self, user: str, agent: str, after: str | None) -> _Page:
        if user and agent:
            return await self._of_both(user, agent, after)
        asked, store = CONVERSATIONS + 1, self._store
        if user:
            found = await store.get_conversations_by_user_id(user, limit=asked, after=after)
        elif agent:
            found = await store.get_conversations_by_agent_id(agent, limit=asked, after=after)
        else:
            found = await store.get_conversations(limit=asked, after=after)
        page = found[:CONVERSATIONS]
        return page, page[-1].id if len(found) > len(page) else None

    async def _of_both(self, user: str, agent: str, after: str | None) -> _Page:
        # No index has both, and a user has few conversations.
        found = await self._store.get_conversations_by_user_id(user, limit=SEARCHED, after=after)
        page: list[Conversation] = []
        for each in found:
            if each.agent_id == agent:
                page.append(each)
            if len(page) == CONVERSATIONS:
                return page, each.id
        return page, found[-1].id if len(found) == SEARCHED else None

    # A conversation

    async def conversation(self, request: Request) -> Response:
        """Show a conversation as a thread."""
        found = await self._conversation(request)
        asked = request.query_params
        after = asked.get("after") or None
        page = await self._store.get_messages_by_conversation_id(
            found.id, limit=MESSAGES + 1, after=after
        )
        if len(page) > MESSAGES and after is None and "oldest" not in asked:
            after = (
                asked.get("at") or (await self._store.get_immediate_context(found.id, NEWEST))[0].id
            )
            first = await self._store.get_message_by_id(after)
            page = await self._store.get_messages_by_conversation_id(
                found.id, limit=MESSAGES, after=after
            )
            page = [first, *page] if first else page
        messages, has_more = page[:MESSAGES], len(page) > MESSAGES
        is_whole = after is None and not has_more
        return self.render(
            "conversation.html",
            conversation=found,
            entries=_entries(messages, await self._traces(found.id, messages, is_whole)),
            has_more=has_more,
            last=messages[-1].id if messages else after,
            is_whole=is_whole,
        )

    async def _conversation(self, request: Request) -> Conversation:
        conversation_id = request.query_params.get("id", "")
        found = conversation_id and await self._store.get_conversation_by_id(conversation_id)
        if not found:
            raise NotFoundError(f"There is no conversation “{conversation_id}”.")
        return found

    async def _traces(
        self, conversation_id: str, messages: list[Message], is_whole: bool
    ) -> list[TurnTrace]:
        if not messages:
            return []
        if is_whole:
            return await self._store.get_turn_traces_by_conversation_id(conversation_id)
        near = TraceFilter(
            conversation_id=conversation_id,
            started_from=max(messages[0].timestamp - LONGEST_TURN, -(2**63)),
            started_until=min(messages[-1].timestamp + LONGEST_TURN, 2**63 - 1),
        )
        return await self._store.find_turn_traces(near, limit=2 * len(messages))

    async def search(self, request: Request) -> Response:
        """List the messages with some words, the best first."""
        names = ("words", "user", "agent")
        asked = {name: request.query_params.get(name, "").strip() for name in names}
        results: list[Result] = []
        problem = ""
        if asked["words"]:
            try:
                found = await self._store.search_messages(
                    asked["words"],
                    user_id=asked["user"] or None,
                    agent_id=asked["agent"] or None,
                    limit=FOUND,
                )
                results = [
                    Result(each.message, excerpt(each.message.original_content, each.spans))
                    for each in found
                ]
            except ConfigurationError as error:
                problem = str(error)
        return self.render("search.html", asked=asked, results=results, problem=problem, most=FOUND)

    async def new_messages(self, request: Request) -> Response:
        """Return the part of a thread that follows the message which a page has last."""
        conversation_id, after = (request.query_params.get(name, "") for name in ("id", "after"))
        if not conversation_id or not await self._store.get_conversation_by_id(conversation_id):
            return Response(status_code=204, headers={"HX-Refresh": "true"})
        try:
            found = await self._store.get_messages_by_conversation_id(
                conversation_id, limit=NEWEST, after=after or None
            )
        except NotFoundError:  # the page shows a message that was deleted
            return Response(status_code=204, headers={"HX-Refresh": "true"})
        if not found:
            return Response(status_code=204)
        before = await self._store.get_message_by_id(after) if after else None
        day = day_of(before.timestamp) if before else ""
        answers = [each.id for each in found if _is_answer(each)]
        traces = [await self._store.get_turn_trace_by_message_id(each) for each in answers]
        return self.render(
            "new_messages.html",
            conversation_id=conversation_id,
            entries=_entries(found, [trace for trace in traces if trace], day),
            last=found[-1].id,
        )

    async def memory(self, request: Request) -> Response:
        """Show the working memory of a conversation, as a page or as a part of one."""
        conversation_id = request.query_params.get("id", "")
        is_part = "HX-Request" in request.headers
        found, problem = None, ""
        if self._memory is not None and conversation_id:
            try:
                found = await self._memory.get(conversation_id)
            except (JazzmineError, ValueError, OSError) as error:
                problem = str(error)
        revision = "none" if found is None else str(found.revision)
        if is_part and not problem and request.query_params.get("revision") == revision:
            return Response(status_code=204)
        return self.render(
            "memory_part.html" if is_part else "memory.html",
            conversation_id=conversation_id,
            memory=found,
            problem=problem,
            revision=revision,
        )

    # Turns

    async def turn(self, request: Request) -> Response:
        """Show the trace of an answer as a timeline, as a page or as a part of one."""
        message_id = request.query_params.get("message", "")
        message = message_id and await self._store.get_message_by_id(message_id)
        if not message:
            raise NotFoundError(f"There is no message “{message_id}”.")
        trace = await self._store.get_turn_trace_by_message_id(message_id)
        return self.render(
            "timeline.html" if "HX-Request" in request.headers else "turn.html",
            entry=Entry(message, trace),
            trace=trace,
            steps=timeline(trace) if trace else [],
        )

    async def turns(self, request: Request) -> Response:
        """List the turns that match the filters, the newest first."""
        asked = TurnFilter.of(request.query_params)
        found = await self._store.find_turn_traces(
            asked.where(), limit=TURNS + 1, after=request.query_params.get("after") or None
        )
        page = found[:TURNS]
        return self.render(
            "turns.html",
            asked=asked,
            turns=page,
            last=page[-1].id if len(found) > len(page) else None,
        )

    async def usage(self, request: Request) -> Response:
        """Show what the turns that match the filters took, as charts."""
        if not request.query_params:
            return RedirectResponse(f"/usage?{urlencode({'since': days_ago(DAYS)})}", 303)
        asked = TurnFilter.of(request.query_params)
        where = asked.where()
        days, *groups = await asyncio.gather(
            *(
                self._store.summarize_usage(where, by=by)
                for by in ("day", "model", "agent", "intent")
            )
        )
        return self.render(
            "usage.html",
            asked=asked,
            days=columns(days),
            groups=[
                (by, bars(found), len(found))
                for by, found in zip(("model", "agent", "intent"), groups, strict=True)
            ],
            ranges=[(f"{each} days", days_ago(each)) for each in (7, 30, 90)],
        )


def _by_day(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    days = groupby(rows, key=lambda each: day_of(each.conversation.last_updated_at))
    return [(day, list(each)) for day, each in days]


def _is_answer(message: Message) -> bool:
    return message.role in (MessageRole.ASSISTANT, MessageRole.COLLEAGUE_ASSISTANT)


def _entries(
    messages: list[Message], traces: Iterable[TurnTrace], day_before: str = ""
) -> list[Entry]:
    of_message = {trace.message_id: trace for trace in traces}
    entries = []
    for each in messages:
        day = day_of(each.timestamp)
        entries.append(Entry(each, of_message.get(each.id), "" if day == day_before else day))
        day_before = day
    return entries
