"""What was saved comes back, as the framework's own persistent store gives it, or is refused."""

from __future__ import annotations

import math
import operator
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from jazzmine.adapters._items import text_of
from jazzmine.sync import MessageStore
from jazzmine.sync.long_term_memory import LongTermMemoryStore
from tests.adapters.frameworks import missing
from tests.adapters.values import same


class Model(BaseModel):
    city: str = "Lisbon"
    note: str | None = None


class Colour(Enum):
    RED = "red"


@dataclass
class Place:
    name: str = "Lisbon"


class Said(TypedDict):
    messages: Annotated[list[Any], operator.add]


VALUES: dict[str, Any] = {
    "bytes": b"\x00\xff",
    "NaN": math.nan,
    "infinity": math.inf,
    "surrogate": "lone \ud800",
    "pair": "\ud83d\ude00",
    "huge": 2**70,
    "none": {"a": None, "b": [None]},
    "U+0000": "a\x00b",
    "tags": {"$bytes": "x"},
    "model": Model(),
    "datetime": datetime(2026, 11, 26, tzinfo=UTC),
    "decimal": Decimal("1.5"),
    "set": {1},
    "enum": Colour.RED,
    "dataclass": Place(),
}


async def _pydantic_ai(store: MessageStore, value: Any) -> Any:
    """Return what comes back of a tool's result."""
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.messages import ModelRequest, ToolReturnPart

    from jazzmine.adapters.pydantic_ai import JazzmineConversationStore

    conversations = JazzmineConversationStore(store, agent_id="a1", user_id="u1")
    part = ToolReturnPart("weather", value, tool_call_id="k", metadata={"more": value})
    said = Conversation(conversation_id="c1", messages=[ModelRequest(parts=[part])])
    await conversations.save(said)
    found = await conversations.load("c1")
    assert found is not None
    loaded: Any = found.messages[0].parts[0]
    assert len(await conversations.list_conversations()) == 1
    return loaded.content


async def _openai_agents(store: MessageStore, value: Any) -> Any:
    from tests.adapters.scripted_openai_agents import session_of

    session = session_of(store)
    await session.add_items([{"type": "odd", "value": value}])
    return (await session.get_items())[0]["value"]


async def _google_adk(store: MessageStore, value: Any) -> Any:
    from jazzmine.adapters.google_adk import JazzmineSessionService

    with LongTermMemoryStore.initialize("memory:") as items:
        return await _adk_value(JazzmineSessionService(store, items), value)


async def _adk_value(service: Any, value: Any) -> Any:
    from google.adk.events.event import Event
    from google.genai import types

    from tests.adapters.scripted_google_adk import PLACE

    session = await service.create_session(**PLACE)
    part: Any = types.Part.from_function_response(name="weather", response={"value": value})
    part.function_response.id = "k"
    call: Any = types.Part.from_function_call(name="weather", args={})
    call.function_call.id = "k"
    content = types.Content(role="model", parts=[call])
    await service.append_event(session, Event(author="guide", content=content))
    content = types.Content(role="user", parts=[part])
    await service.append_event(session, Event(author="guide", content=content))
    found = await service.get_session(**PLACE)
    return found.events[1].content.parts[0].function_response.response["value"]


async def _agent_framework(store: MessageStore, value: Any) -> Any:
    from agent_framework import Content, Message

    from jazzmine.adapters.agent_framework import JazzmineHistoryProvider

    provider = JazzmineHistoryProvider(store, user_id="u1", agent_id="a1")
    call = Content.from_function_call("k", "weather", arguments={"value": value})
    said = Message("assistant", [call])
    await provider.save_messages("s1", [said])
    found = (await provider.get_messages("s1"))[0].to_dict()
    # The framework's own dump leaves out some values, whatever store there is.
    assert same(found, Message.from_dict(said.to_dict()).to_dict())
    return value


async def _strands(store: MessageStore, value: Any) -> Any:
    from jazzmine.adapters.strands import JazzmineSessionRepository

    return _strands_value(JazzmineSessionRepository(store, user_id="u1", agent_id="a1"), value)


def _strands_value(repository: Any, value: Any) -> Any:
    from strands.types.session import Session, SessionMessage, SessionType

    from tests.adapters.scripted_strands import state

    repository.create_session(Session(session_id="s1", session_type=SessionType.AGENT))
    repository.create_agent("s1", state())
    result = {"toolUseId": "k", "status": "success", "content": [{"json": value}]}
    message: Any = {"role": "user", "content": [{"toolResult": result}]}
    repository.create_message("s1", "guide", SessionMessage.from_message(message, 0))
    (found,) = repository.list_messages("s1", "guide")
    return found.to_message()["content"][0]["toolResult"]["content"][0]["json"]


async def _claude_agent_sdk(store: MessageStore, value: Any) -> Any:
    from jazzmine.adapters.claude_agent_sdk import JazzmineSessionStore

    sessions: Any = JazzmineSessionStore(store, user_id="u1", agent_id="a1", record_runs=True)
    key = {"project_key": "project", "session_id": "session"}
    message = {"role": "user", "content": value}
    await sessions.append(key, [{"type": "user", "uuid": "e1", "message": message}])
    ((entry,), _) = await sessions.load(key), await sessions.list_sessions("project")
    return entry["message"]["content"]


async def _langgraph(store: MessageStore, value: Any) -> Any:
    from jazzmine.adapters.langgraph import JazzmineSaver

    with LongTermMemoryStore.initialize("memory:") as items:
        return _langgraph_value(JazzmineSaver(items, messages=store), value)


def _langgraph_value(saver: Any, value: Any) -> Any:
    from langgraph.graph import START, StateGraph

    built: StateGraph[Any] = StateGraph(Said)
    built.add_node("answer", lambda state: {"messages": []})
    built.add_edge(START, "answer")
    graph, said = built.compile(checkpointer=saver), {"role": "user", "content": value}
    settings: Any = {"configurable": {"thread_id": "t1", "user_id": "u1"}}
    graph.invoke({"messages": [said]}, settings)
    return graph.get_state(settings).values["messages"][0]["content"]


READERS: dict[str, Callable[[MessageStore, Any], Awaitable[Any]]] = {
    "pydantic_ai": _pydantic_ai,
    "openai_agents": _openai_agents,
    "google_adk": _google_adk,
    "agent_framework": _agent_framework,
    "strands": _strands,
    "claude_agent_sdk": _claude_agent_sdk,
    "langgraph": _langgraph,
}

# What the frameworks themselves make of a value that JSON has no form for, before it is stored.
AS_JSON = {
    "model": {"city": "Lisbon", "note": None},
    "decimal": "1.5",
    "set": [1],
    "enum": "red",
    "dataclass": {"name": "Lisbon"},
}


# What the frameworks' own stores refuse.
REFUSED = {("google_adk", "surrogate"), ("langgraph", "huge")}


@pytest.mark.parametrize("cell", [(n, v) for n in READERS for v in VALUES], ids=" ".join)
async def test_a_value_comes_back_or_is_refused(cell: tuple[str, str]) -> None:
    name, value = cell[0], VALUES[cell[1]]
    if reason := missing(name):
        pytest.skip(reason)
    with MessageStore.initialize("memory:") as store:
        try:
            found = await READERS[name](store, value)
            said = [
                message.original_content
                for conversation in store.get_conversations()
                for message in store.get_messages_by_conversation_id(conversation.id)
            ]
        except (TypeError, ValueError):
            assert not isinstance(value, str | float | int | dict) or cell in REFUSED
            ids = [conversation.id for conversation in store.get_conversations()]
            assert not any(store.count_messages(ids).values())
            return
    if name not in ("openai_agents", "agent_framework") and cell[1] in AS_JSON:
        assert text_of(value) in said[-1].replace('\\"', '"')
    if name == "google_adk":
        # Its database makes one character of two halves, which come back here as they were.
        assert same(found, value) or same(found, await _theirs(value))
    elif name == "langgraph":
        from langgraph.checkpoint.memory import InMemorySaver

        assert same(found, _langgraph_value(InMemorySaver(), value))
    elif name == "agent_framework":
        assert found is value
    elif cell[1] == "datetime":
        assert datetime.fromisoformat(str(found)) == value
    else:
        assert same(found, AS_JSON.get(cell[1], value))


async def _theirs(value: Any) -> Any:
    from google.adk.sessions.database_session_service import DatabaseSessionService

    async with DatabaseSessionService("sqlite+aiosqlite:///:memory:") as service:
        return await _adk_value(service, value)
