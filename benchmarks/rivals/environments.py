"""The environments of the libraries, one each, at the versions that are compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.frame.environments import ROOT, pip, renewed

FOLDER = ROOT / ".venv-rivals"


@dataclass(frozen=True)
class Environment:
    """An environment with a library.

    Attributes:
        name: that of its folder.
        requirements: what `pip install` is told, the library first.
    """

    name: str
    requirements: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return FOLDER / self.name


# The drivers of all libraries, so that no difference between two stores is one between two of them.
ASYNCPG, AIOSQLITE = "asyncpg==0.32.0", "aiosqlite==0.22.1"
PSYCOPG, PSYCOPG_POOL = "psycopg[binary]==3.3.9", "psycopg-pool==3.3.3"
SQLALCHEMY = "sqlalchemy[asyncio]==2.1.9"

JAZZMINE = Environment("jazzmine", ("--editable", f"{ROOT}[postgres]", PSYCOPG, PSYCOPG_POOL))
OPENAI_AGENTS = Environment(
    "openai_agents", ("openai-agents==0.24.0", SQLALCHEMY, ASYNCPG, AIOSQLITE)
)
LANGGRAPH = Environment(
    "langgraph",
    (
        "langgraph==1.2.22",
        "langgraph-checkpoint-sqlite==3.1.2",
        "langgraph-checkpoint-postgres==3.2.0",
        PSYCOPG,
        PSYCOPG_POOL,
        AIOSQLITE,
    ),
)
JAZZMINE_SAVER = Environment("jazzmine_saver", (*JAZZMINE.requirements, *LANGGRAPH.requirements))
LANGCHAIN = Environment(
    "langchain",
    ("langchain-postgres==0.0.19", PSYCOPG, PSYCOPG_POOL, SQLALCHEMY, ASYNCPG),
)
AGNO = Environment("agno", ("agno==3.1.10", SQLALCHEMY, PSYCOPG))
GOOGLE_ADK = Environment("google_adk", ("google-adk[db]==2.13.0", SQLALCHEMY, ASYNCPG, AIOSQLITE))
LLAMA_INDEX = Environment(
    "llama_index", ("llama-index-core==0.14.25", SQLALCHEMY, ASYNCPG, AIOSQLITE)
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
