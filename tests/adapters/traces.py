"""What the recorder of each adapter leaves behind: one turn that calls the tool `weather`."""

from __future__ import annotations

from jazzmine import TurnTrace
from jazzmine.adapters._calls import as_async
from jazzmine.core import MessageStore as AsyncMessageStore
from jazzmine.sync import MessageStore

__all__ = ["check_recorded_turn", "only_trace"]


async def only_trace(store: AsyncMessageStore | MessageStore, conversation_id: str) -> TurnTrace:
    """Return the one trace of a conversation, which belongs to a message that is stored.

    The error of each call that failed is among its `errors`, by which failed turns are counted.
    """
    reading = as_async(store)
    (trace,) = await reading.get_turn_traces_by_conversation_id(conversation_id)
    assert await reading.get_message_by_id(trace.message_id) is not None
    calls = [(call.success, call.error) for call in trace.llm_calls]
    calls += [(call.success, call.error) for call in trace.tool_traces]
    for success, reason in calls:
        assert success or any(str(reason) in error for error in trace.errors)
    return trace


def check_recorded_turn(trace: TurnTrace) -> None:
    """Check the trace of a turn in which a scripted model called `weather`, and then answered."""
    assert (trace.user_id, trace.agent_id) == ("u1", "a1")
    assert not trace.errors
    assert len(trace.llm_calls) == 2
    for call in trace.llm_calls:
        assert call.success
        assert call.model
        assert (call.prompt_tokens, call.completion_tokens) == (10, 5)
        assert (call.total_tokens, call.cached_prompt_tokens) == (15, 4)
        assert call.timestamp_ms >= trace.started_at_ms
    assert trace.total_tokens == 30
    (tool,) = trace.tool_traces
    assert (tool.tool_name, tool.arguments, tool.success) == ("weather", {"city": "Lisbon"}, True)
    assert "rain in Lisbon" in str(tool.final_data)
    assert tool.call_id
    assert tool.started_at_ms is not None
