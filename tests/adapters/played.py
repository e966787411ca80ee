"""One scripted agent in each framework, for what holds for all adapters.

Each is asked a question, calls the tool `weather`, which gets its answer, and answers: two calls of
a model with 15 tokens each (12 of Claude's, whose transcript is written here).
"""

from __future__ import annotations

from jazzmine.sync import MessageStore
from jazzmine.sync.long_term_memory import LongTermMemoryStore
from tests.adapters.played_agents import AgentFramework, OpenAIAgents, PydanticAI, Strands
from tests.adapters.played_base import Played
from tests.adapters.played_services import ClaudeAgentSDK, GoogleADK, LangGraph

__all__ = ["PLAYED", "AgentFramework", "ClaudeAgentSDK", "Played", "PydanticAI", "played"]

PLAYED: dict[str, type[Played]] = {
    "openai_agents": OpenAIAgents,
    "claude_agent_sdk": ClaudeAgentSDK,
    "pydantic_ai": PydanticAI,
    "strands": Strands,
    "agent_framework": AgentFramework,
    "google_adk": GoogleADK,
    "langgraph": LangGraph,
}


def played(name: str, store: MessageStore, items: LongTermMemoryStore) -> Played:
    """Return the agent of a framework."""
    return PLAYED[name](store, items)
