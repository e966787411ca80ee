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
    "google_adk": ("google.adk", "google-adk"),
    "langgraph": ("langgraph", "langgraph"),
    "agent_framework": ("agent_framework", "agent-framework-core"),
}


def missing(adapter: str) -> str:
    """Return why an adapter's framework cannot be tested here, or "" if it can."""
    module, package = FRAMEWORKS[adapter]
    # A module in a package of several distributions, such as `google`, needs that package.
    if find_spec(module.partition(".")[0]) is not None and find_spec(module) is not None:
        return ""
    return f"{package} is not installed (scripts/install all,test,adapters)"
