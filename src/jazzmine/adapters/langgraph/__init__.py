"""The checkpoints of LangGraph's graphs, and its store, in a long-term memory."""

from jazzmine.adapters._versions import supported

with supported("langgraph-checkpoint", "4.1.0", "5.0"):
    from jazzmine.adapters.langgraph.recorder import JazzmineRecorder
    from jazzmine.adapters.langgraph.saver import JazzmineSaver
    from jazzmine.adapters.langgraph.store import JazzmineStore

__all__ = ["JazzmineRecorder", "JazzmineSaver", "JazzmineStore"]
