"""The environments of the libraries, one each, at the versions that are compared."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from benchmarks.frame.environments import ROOT, pip, renewed

FOLDER = ROOT / ".venv-rivals"


@dataclass(frozen=True)
class Environment:
    """An environment with a library.

    Attributes:
        name: that of its folder.
        title: what the tables call the library.
        requirements: what `pip install` is told, the library first.
    """

    name: str
    title: str
    requirements: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def packages(self) -> Path:
        return next(self.folder.glob("lib/python*/site-packages"))


# The drivers of all libraries, so that no difference between two stores is one between two of them.
ASYNCPG, AIOSQLITE = "asyncpg==0.32.0", "aiosqlite==0.22.1"
PSYCOPG, PSYCOPG_POOL = "psycopg[binary]==3.3.9", "psycopg-pool==3.3.3"
SQLALCHEMY = "sqlalchemy[asyncio]==2.1.9"

JAZZMINE = Environment(
    "jazzmine", "jazzmine", ("--editable", f"{ROOT}[postgres]", PSYCOPG, PSYCOPG_POOL)
)
OPENAI_AGENTS = Environment(
    "openai_agents", "OpenAI Agents", ("openai-agents==0.24.0", SQLALCHEMY, ASYNCPG, AIOSQLITE)
)
LANGGRAPH = Environment(
    "langgraph",
    "LangGraph",
    (
        "langgraph==1.2.22",
        "langgraph-checkpoint-sqlite==3.1.2",
        "langgraph-checkpoint-postgres==3.2.0",
        PSYCOPG,
        PSYCOPG_POOL,
        AIOSQLITE,
    ),
)
JAZZMINE_SAVER = Environment(
    "jazzmine_saver", "JazzmineSaver", (*JAZZMINE.requirements, *LANGGRAPH.requirements)
)
LANGCHAIN = Environment(
    "langchain",
    "LangChain",
    ("langchain-postgres==0.0.19", PSYCOPG, PSYCOPG_POOL, SQLALCHEMY, ASYNCPG),
)
AGNO = Environment("agno", "Agno", ("agno==3.1.10", SQLALCHEMY, PSYCOPG))
GOOGLE_ADK = Environment(
    "google_adk", "Google ADK", ("google-adk[db]==2.13.0", SQLALCHEMY, ASYNCPG, AIOSQLITE)
)
LLAMA_INDEX = Environment(
    "llama_index", "LlamaIndex", ("llama-index-core==0.14.25", SQLALCHEMY, ASYNCPG, AIOSQLITE)
)

ENVIRONMENTS = (
    JAZZMINE,
    OPENAI_AGENTS,
    LANGGRAPH,
    JAZZMINE_SAVER,
    LANGCHAIN,
    AGNO,
    GOOGLE_ADK,
    LLAMA_INDEX,
)


def versions(environment: Environment) -> dict[str, str]:
    """Return the installed versions of the library and of the drivers, by their names."""
    wanted = {re.split(r"[=\[]", text)[0] for text in environment.requirements} | {"jazzmine"}
    installed = distributions(path=[str(environment.packages)])
    names = {each.metadata["Name"]: each.version for each in installed}
    return {name: names[name] for name in sorted(names) if name.lower() in wanted}


def make(environment: Environment) -> None:
    """Create an environment that is missing or out of date."""
    is_ours = JAZZMINE.requirements[1] in environment.requirements
    project = (ROOT / "pyproject.toml").read_text() if is_ours else ""
    with renewed(environment.folder, *environment.requirements, project) as is_new:
        if is_new:
            pip(environment.folder, "install", *environment.requirements)


if __name__ == "__main__":
    for each in ENVIRONMENTS:
        make(each)
