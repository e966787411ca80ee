"""One scripted agent in each framework, for what holds for all adapters.

Each is asked a question, calls the tool `weather`, which gets its answer, and answers: two calls of
a model with 15 tokens each.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from jazzmine.sync import MessageStore
from jazzmine.sync.long_term_memory import LongTermMemoryStore
from tests.adapters.played_base import Played

__all__ = ["PLAYED", "Played", "played"]

# Their classes, in modules that need the framework.
PLAYED = {
    "openai_agents": ("scripted_openai_agents", "OpenAIAgents"),
    "claude_agent_sdk": ("played_claude", "ClaudeAgentSDK"),
    "pydantic_ai": ("scripted_pydantic_ai", "PydanticAI"),
    "strands": ("scripted_strands", "Strands"),
    "agent_framework": ("scripted_agent_framework", "AgentFramework"),
    "google_adk": ("scripted_google_adk", "GoogleADK"),
    "langgraph": ("langgraph_agent", "LangGraph"),
}


def played(name: str, store: MessageStore, items: LongTermMemoryStore) -> Played:
    """Return the agent of a framework."""
    module, kind = PLAYED[name]
    return cast(Played, getattr(import_module(f"tests.adapters.{module}"), kind)(store, items))
