"""What a transition is given besides records, so that a refusal names the argument."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from jazzmine.records.memory_base import MEMORY_CONFIG
from jazzmine.records.types import JsonObject, JsonValue, Text

__all__ = ["BranchChoice", "BranchResult", "Reply", "SlotAnswer", "StepResult"]


@dataclass(config=MEMORY_CONFIG)
class Reply:
    """The arguments of `end_turn`."""

    agent_response: Text
    agent_intent: Text
    topic_summary: Text


@dataclass(config=MEMORY_CONFIG)
class StepResult:
    """The argument of `advance_sequential_step`."""

    result: JsonObject


@dataclass(config=MEMORY_CONFIG)
class BranchResult:
    """The arguments of `record_branch_result`."""

    branch_id: Text
    result: JsonValue


@dataclass(config=MEMORY_CONFIG)
class BranchChoice:
    """The argument of `set_condition_branch`."""

    branch: Text


@dataclass(config=MEMORY_CONFIG)
class SlotAnswer:
    """The arguments of `collect_slot`."""

    name: Text
    value: JsonValue
    validation_error: Text
