"""The frameworks that adapters are for, and whether they are installed."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["FRAMEWORKS", "missing"]

# By the name of the adapter's module: the framework's module, and the package to install.
FRAMEWORKS = {
    "openai_agents": ("agents", "openai-agents"),
    "claude_agent_sdk": ("claude_agent_sdk", "claude-agent-sdk"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai-slim"),
    "strands": ("strands", "strands-agents"),
    "agent_framework": ("agent_framework", "agent-framework-core"),
}


def missing(adapter: str) -> str:
    """Return why an adapter's framework cannot be tested here, or "" if it can."""
    module, package = FRAMEWORKS[adapter]
    if find_spec(module) is not None:
        return ""
    return f"{package} is not installed (scripts/install all,test,adapters)"
