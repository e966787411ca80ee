"""The pages: each reads from the stores, and renders a template."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
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
    UsageSummary,
    WorkingMemoryStore,
)
from jazzmine.errors import ConfigurationError, JazzmineError, NotFoundError
from jazzmine.inspector.charts import bars, columns
from jazzmine.inspector.filters import TurnFilter, days_ago
from jazzmine.inspector.text import FILTERS, address, day_of, excerpt
from jazzmine.inspector.threads import PAGE, entries, later_window, question_of, read_window
from jazzmine.records.timeline import timeline

CONVERSATIONS = 50
TURNS = 100
RESULTS = 50

# The first text of a user is among so many messages.
FIRST = 5

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
        name: its title, or the first text of its user; "" if it has neither.
        messages: how many it has.
        usage: what its turns took; None if no trace is stored.
    """

    conversation: Conversation
    name: str
    messages: int
    usage: UsageSummary | None


# Conversations, and the id after which the next page begins if there may be one.
_Page: TypeAlias = tuple[list[Conversation], str | None]


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
        fields = _fields(request, "id", "user", "agent")
        if fields["id"]:
            path = await self._path_of(fields["id"])
            if path is not None:
                return RedirectResponse(path, 303)
        page: _Page = ([], None)
        if not fields["id"]:
            after = request.query_params.get("after") or None
            page = await self._listed(fields["user"], fields["agent"], after)
        return self.render(
            "conversations.html",
            days=_by_day(await self._rows(page[0])),
            fields=fields,
            last=page[1],
            is_first="after" not in request.query_params,
        )

    async def _rows(self, conversations: Sequence[Conversation]) -> list[Row]:
        if not conversations:
            return []
        ids = [conversation.id for conversation in conversations]
        counts, usages, names = await asyncio.gather(
            self._store.count_messages(ids),
            asyncio.gather(*map(self._usage_of, ids)),
            asyncio.gather(*map(self._name_of, conversations)),
        )
        return [
            Row(conversation, name, counts[conversation.id], usage)
            for conversation, name, usage in zip(conversations, names, usages, strict=True)
        ]

    async def _usage_of(self, conversation_id: str) -> UsageSummary | None:
        where = TraceFilter(conversation_id=conversation_id)
        return next(iter(await self._store.summarize_usage(where, by="conversation")), None)

    async def _name_of(self, conversation: Conversation) -> str:
        """Return the title of a conversation, or else the first text of its user."""
        if conversation.title:
            return conversation.title
        first = await self._store.get_messages_by_conversation_id(conversation.id, limit=FIRST)
        texts = (each.original_content for each in first if each.role is MessageRole.USER)
        return next(texts, "")

    async def _path_of(self, some_id: str) -> str | None:
        if await self._store.get_conversation_by_id(some_id) is not None:
            return address("/conversation", id=some_id) + "#end"
        if await self._store.get_message_by_id(some_id) is not None:
            return address("/turn", message=some_id)
        trace = await self._store.get_turn_trace_by_id(some_id)
        return None if trace is None else address("/turn", message=trace.message_id)

    async def _listed(self, user: str, agent: str, after: str | None) -> _Page:
        store = self._store
        wanted: dict[str, Any] = {"limit": CONVERSATIONS + 1, "after": after}
        if agent:
            read = await store.get_conversations_by_agent_id(agent, user_id=user or None, **wanted)
        elif user:
            read = await store.get_conversations_by_user_id(user, **wanted)
        else:
            read = await store.get_conversations(**wanted)
        page = read[:CONVERSATIONS]
        return page, page[-1].id if len(read) > len(page) else None

    # A conversation

    async def conversation(self, request: Request) -> Response:
        """Show a conversation as a thread."""
        conversation_id = request.query_params.get("id", "")
        conversation = conversation_id and await self._store.get_conversation_by_id(conversation_id)
        if not conversation:
            raise NotFoundError(f"There is no conversation “{conversation_id}”.")
        window, counts, name = await asyncio.gather(
            read_window(self._store, conversation_id, request.query_params),
            self._store.count_messages([conversation_id]),
            self._name_of(conversation),
        )
        return self.render(
            "conversation.html",
            conversation=conversation,
            name=name,
            count=counts[conversation_id],
            window=window,
            last=window.last or request.query_params.get("after"),
            entries=await entries(self._store, window),
        )

    async def new_messages(self, request: Request) -> Response:
        """Return the part of a thread that follows the message which a page has last."""
        conversation_id, after = (request.query_params.get(name, "") for name in ("id", "after"))
        if not conversation_id or not await self._store.get_conversation_by_id(conversation_id):
            return Response(status_code=204, headers={"HX-Refresh": "true"})
        try:
            window = await later_window(self._store, conversation_id, after or None, PAGE)
        except NotFoundError:  # the page shows a message that was deleted
            return Response(status_code=204, headers={"HX-Refresh": "true"})
        if not window.last:
            return Response(status_code=204)
        before = await self._store.get_message_by_id(after) if after else None
        day = day_of(before.timestamp) if before else ""
        return self.render(
            "new_messages.html",
            conversation_id=conversation_id,
            entries=await entries(self._store, window, day),
            last=window.last,
        )

    async def search(self, request: Request) -> Response:
        """List the messages with some words, the best first."""
        fields = _fields(request, "words", "user", "agent")
        results: list[tuple[Message, list[tuple[str, bool]]]] = []
        problem = ""
        if fields["words"]:
            try:
                results = [
                    (each.message, excerpt(each.message.original_content, each.spans))
                    for each in await self._store.search_messages(
                        fields["words"],
                        user_id=fields["user"] or None,
                        agent_id=fields["agent"] or None,
                        limit=RESULTS,
                    )
                ]
            except ConfigurationError as error:
                problem = str(error)
        return self.render(
            "search.html", fields=fields, results=results, problem=problem, most=RESULTS
        )

    async def memory(self, request: Request) -> Response:
        """Show the working memory of a conversation, as a page or as a part of one."""
        conversation_id = request.query_params.get("id", "")
        is_part = "HX-Request" in request.headers
        memory, problem = None, ""
        if self._memory is not None and conversation_id:
            try:
                memory = await self._memory.get(conversation_id)
            except (JazzmineError, ValueError, OSError) as error:
                problem = str(error)
        revision = "none" if memory is None else str(memory.revision)
        if is_part and not problem and request.query_params.get("revision") == revision:
            return Response(status_code=204)
        return self.render(
            "memory_part.html" if is_part else "memory.html",
            conversation_id=conversation_id,
            memory=memory,
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
        steps = timeline(trace) if trace else []
        if "HX-Request" in request.headers:
            return self.render("timeline.html", trace=trace, steps=steps)
        return self.render(
            "turn.html",
            message=message,
            question=await question_of(self._store, message),
            trace=trace,
            steps=steps,
        )

    async def turns(self, request: Request) -> Response:
        """List the turns that match the filters, the newest first."""
        fields = TurnFilter.of(request.query_params)
        traces = await self._store.find_turn_traces(
            fields.where(), limit=TURNS + 1, after=request.query_params.get("after") or None
        )
        page = traces[:TURNS]
        return self.render(
            "turns.html",
            fields=fields,
            turns=page,
            last=page[-1].id if len(traces) > len(page) else None,
        )

    async def usage(self, request: Request) -> Response:
        """Show what the turns that match the filters took, as charts."""
        if not request.query_params:
            return RedirectResponse(f"./usage?{urlencode({'since': days_ago(DAYS)})}", 303)
        fields = TurnFilter.of(request.query_params)
        where = fields.where()
        days, *groups = await asyncio.gather(
            *(
                self._store.summarize_usage(where, by=by)
                for by in ("day", "model", "agent", "intent")
            )
        )
        return self.render(
            "usage.html",
            fields=fields,
            days=columns(days),
            groups=[
                (by, bars(usages), len(usages))
                for by, usages in zip(("model", "agent", "intent"), groups, strict=True)
            ],
            ranges=[(f"{each} days", days_ago(each)) for each in (7, 30, 90)],
        )


def _fields(request: Request, *names: str) -> dict[str, str]:
    return {name: request.query_params.get(name, "").strip() for name in names}


def _by_day(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    days = groupby(rows, key=lambda row: day_of(row.conversation.last_updated_at))
    return [(day, list(each)) for day, each in days]
