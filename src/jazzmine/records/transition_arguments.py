"""The arguments of transitions that are not records, so that an error names the argument."""

from __future__ import annotations

from jazzmine.records.memory_base import memory_record
from jazzmine.records.types import JsonObject, JsonValue, Text

__all__ = ["BranchChoice", "BranchResult", "Data", "Reply", "SlotAnswer", "StepResult"]


@memory_record
class Reply:
    """The arguments of `end_turn`."""

    agent_response: Text
    agent_intent: Text
    topic_summary: Text


@memory_record
class StepResult:
    """The argument of `advance_sequential_step`."""

    step_result: JsonObject


@memory_record
class BranchResult:
    """The arguments of `record_branch_result`."""

    branch_id: Text
    result: JsonValue


@memory_record
class BranchChoice:
    """The argument of `set_condition_branch`."""

    branch: Text


@memory_record
class Data:
    """The arguments of `set_data`."""

    data: JsonObject


@memory_record
class SlotAnswer:
    """The arguments of `collect_slot`."""

    slot_name: Text
    value: JsonValue
    validation_error: Text
