"""A call of a tool: its arguments, its result, and its text in a prompt."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import field

from jazzmine.records.memory_base import MemoryRecord, changed_copy, memory_record
from jazzmine.records.prompt_xml import escape_attribute, escape_text
from jazzmine.records.types import Int64, JsonObject, JsonValue, Text, copy_json

__all__ = ["ToolCallRecord"]


@memory_record
class ToolCallRecord(MemoryRecord):
    """A tool call with its result or error.

    Attributes:
        tool_name: the name of the tool.
        arguments: the arguments of the tool, a JSON object.
        result: the raw result, any JSON value; never part of a prompt.
        result_summary: the text that a prompt contains in place of the result.
        success: whether it returned, and did not fail.
        error: the error message, if `success` is false.
        turn_number: the turn of the call; if it is 0, `record_tool_call` sets it.
        call_index: its index within the turn, from 0; `record_tool_call` sets it.
        called_at: Unix seconds.
        step: the step of a sequential flow that it belongs to.
        branch: the branch of a parallel flow that it belongs to.
    """

    tool_name: Text
    arguments: JsonObject
    result: JsonValue = None
    result_summary: Text = ""
    success: bool = True
    error: Text = ""
    turn_number: Int64 = 0
    call_index: Int64 = 0
    called_at: float = field(default_factory=time.time)
    step: Int64 | None = None
    branch: Text | None = None

    def without_result(self) -> ToolCallRecord:
        """Return a deep copy without the raw result."""
        return changed_copy(self, arguments=copy_json(self.arguments), result=None)

    def to_prompt_xml(self) -> str:
        """Return the call as XML, indented by two spaces, everything in it escaped.

        The attributes `step` and `branch` appear only where the call has one, and a failed
        call has an `<error>` in place of its `<summary>`:

            <call index="0" tool="search" success="true" step="1" branch="branch_2">
              <args>{"query": "shoes"}</args>
              <summary>12 found</summary>
            </call>
        """
        attributes = f'index="{self.call_index}" tool="{escape_attribute(self.tool_name)}"'
        attributes += f' success="{str(self.success).lower()}"'
        if self.step is not None:
            attributes += f' step="{self.step}"'
        if self.branch is not None:
            attributes += f' branch="{escape_attribute(self.branch)}"'
        arguments = escape_text(json.dumps(self.arguments, ensure_ascii=False))
        if self.success:
            outcome = f"<summary>{escape_text(self.result_summary or '(no summary)')}</summary>"
        else:
            outcome = f"<error>{escape_text(self.error or '(no error message)')}</error>"
        return f"  <call {attributes}>\n    <args>{arguments}</args>\n    {outcome}\n  </call>"


def calls_section(tag: str, calls: Iterable[ToolCallRecord]) -> str:
    """Return the calls as one element of a prompt, or "" if there are none."""
    lines = [call.to_prompt_xml() for call in calls]
    return "\n".join([f"<{tag}>", *lines, f"</{tag}>"]) if lines else ""
