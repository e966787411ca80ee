"""The environments of the libraries, one each, at the versions that are compared."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.frame import environments as frame
from benchmarks.frame.environments import ROOT

FOLDER = ROOT / ".venv-rivals"


@dataclass(frozen=True)
class Environment:
    """What `pip install` is told; the first is the library itself."""

    name: str
    requirements: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def packages(self) -> Path:
        return next(self.folder.glob("lib/python*/site-packages"))


JAZZMINE = Environment("jazzmine", ("--editable", f"{ROOT}[postgres]"))
OPENAI_AGENTS = Environment(
    "openai_agents", ("openai-agents[sqlalchemy]==0.24.0", "asyncpg", "aiosqlite")
)
LANGGRAPH = Environment(
    "langgraph",
    (
        "langgraph==1.2.22",
        "langgraph-checkpoint-sqlite==3.1.2",
        "langgraph-checkpoint-postgres==3.2.0",
        "psycopg[binary]",
        "psycopg_pool",
    ),
)
LANGCHAIN = Environment("langchain", ("langchain-postgres==0.0.19", "psycopg[binary]"))
AGNO = Environment("agno", ("agno==3.1.10", "sqlalchemy[asyncio]", "psycopg[binary]"))
GOOGLE_ADK = Environment("google_adk", ("google-adk[db]==2.13.0", "asyncpg", "aiosqlite"))
LLAMA_INDEX = Environment("llama_index", ("llama-index-core==0.14.25", "asyncpg", "aiosqlite"))

ENVIRONMENTS = (JAZZMINE, OPENAI_AGENTS, LANGGRAPH, LANGCHAIN, AGNO, GOOGLE_ADK, LLAMA_INDEX)


def make(environment: Environment) -> None:
    """Create an environment that is missing or out of date."""
    project = (ROOT / "pyproject.toml").read_text() if environment is JAZZMINE else ""
    stamp = frame._digest(sys.version, *environment.requirements, project)
    FOLDER.mkdir(exist_ok=True)
    if not frame._is_fresh(environment.folder, stamp):
        frame._new_environment(environment.folder)
        frame._pip(environment.folder, "install", *environment.requirements)
        frame._seal(environment.folder, stamp)


if __name__ == "__main__":
    frame.make_ours()
    for each in ENVIRONMENTS:
        make(each)
