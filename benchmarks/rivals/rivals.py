"""The stores that are compared, and what each says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from benchmarks.rivals import environments
from benchmarks.rivals.environments import Environment
from benchmarks.rivals.store import Store
from benchmarks.rivals.stores import (
    agno,
    google_adk,
    jazzmine,
    langchain,
    langgraph,
    llama_index,
    openai_agents,
)


@dataclass(frozen=True)
class Rival:
    """A store on one kind of database."""

    name: str
    adapter: type[Store]
    environment: Environment
    kind: Literal["SQLite", "PostgreSQL"]

    @property
    def label(self) -> str:
        return f"{self.name}, {self.kind}"


RIVALS = (
    Rival("jazzmine", jazzmine.Jazzmine, environments.JAZZMINE, "SQLite"),
    Rival("OpenAI SQLiteSession", openai_agents.SQLite, environments.OPENAI_AGENTS, "SQLite"),
    Rival("LangGraph saver", langgraph.SQLite, environments.LANGGRAPH, "SQLite"),
    Rival("JazzmineSaver", langgraph.Jazzmine, environments.JAZZMINE_SAVER, "SQLite"),
    Rival("Agno", agno.SQLite, environments.AGNO, "SQLite"),
    Rival("Google ADK", google_adk.Service, environments.GOOGLE_ADK, "SQLite"),
    Rival("LlamaIndex", llama_index.Chat, environments.LLAMA_INDEX, "SQLite"),
    Rival("jazzmine", jazzmine.Jazzmine, environments.JAZZMINE, "PostgreSQL"),
    Rival(
        "OpenAI SQLAlchemySession",
        openai_agents.SQLAlchemy,
        environments.OPENAI_AGENTS,
        "PostgreSQL",
    ),
    Rival("LangGraph saver", langgraph.PostgreSQL, environments.LANGGRAPH, "PostgreSQL"),
    Rival("JazzmineSaver", langgraph.Jazzmine, environments.JAZZMINE_SAVER, "PostgreSQL"),
    Rival("LangChain history", langchain.History, environments.LANGCHAIN, "PostgreSQL"),
    Rival("Agno", agno.PostgreSQL, environments.AGNO, "PostgreSQL"),
    Rival("Google ADK", google_adk.Service, environments.GOOGLE_ADK, "PostgreSQL"),
    Rival("LlamaIndex", llama_index.Chat, environments.LLAMA_INDEX, "PostgreSQL"),
)
