"""What the inspector shows of a run that an adapter has recorded."""

from __future__ import annotations

from html import unescape

from jazzmine.core import MessageStore
from tests.adapters.traces import only_trace
from tests.inspector.conftest import opened

__all__ = ["check_page"]


async def check_page(url: str, conversation_id: str) -> None:
    """Check that the page of a conversation's one turn shows the calls of models and of the tool.

    Args:
        url: the message store.
        conversation_id: the conversation.
    """
    async with await MessageStore.initialize(url) as store, opened(store, None) as site:
        trace = await only_trace(store, conversation_id)
        page = unescape(await site.text("/turn", message=trace.message_id))
    assert len(trace.llm_calls) == 2
    for call in trace.llm_calls:
        assert call.model in page
        assert f"{call.total_tokens} tokens" in page
    (tool,) = trace.tool_traces
    for shown in (tool.tool_name, "Lisbon", "rain in Lisbon"):
        assert shown in page
