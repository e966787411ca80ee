"""The data of one turn, and the entities and topics that a conversation keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from jazzmine.records.memory_base import MemoryRecord, changed_copy, memory_record
from jazzmine.records.tool_call import ToolCallRecord, calls_section
from jazzmine.records.types import Int64, JsonObject, Text

__all__ = ["TopicShift", "TurnCache", "WorkspaceEntity"]


@memory_record
class WorkspaceEntity(MemoryRecord):
    """A thing that the conversation mentioned.

    Attributes:
        name: its name, which identifies it.
        attributes: its attributes, each once, in the order of the first mention.
        first_seen_turn: the turn in which it was mentioned first.
        last_seen_turn: the turn in which it was mentioned last.
        mention_count: the number of turns that mentioned it.
    """

    name: Text
    attributes: list[Text] = field(default_factory=list)
    first_seen_turn: Int64 = 0
    last_seen_turn: Int64 = 0
    mention_count: Int64 = 1


@memory_record
class TopicShift(MemoryRecord):
    """A turn that did not continue the previous topic.

    Attributes:
        turn_number: the turn that began the topic.
        intent: the intent of that turn.
        summary: a summary of the topic; `end_turn` sets it.
    """

    turn_number: Int64
    intent: Text
    summary: Text = ""


@memory_record
class TurnCache(MemoryRecord):
    """The data of the current turn; the next turn replaces it.

    Attributes:
        turn_number: the number of the turn, from 1; `begin_turn` numbers the turn of a
            `message_id`, if this is 0.
        enhanced_query: the user's text, rewritten so that it stands alone.
        intent: the aim of the user.
        sentiment_score: the mood of the text, from -1 to 1.
        is_continuation: whether it goes on with the topic; if not, a topic is added.
        is_cancellation: whether the user calls off the flow in progress.
        raw_entities: each a dict with a `name` and, optionally, a list of `attributes`.
        retrieved_same_conv_episodes: episodes of this conversation; an episode's
            `short_summary` is read, other keys are not.
        retrieved_prev_conv_episodes: episodes of earlier conversations, as above.
        retrieved_semantic_terms: data of the application.
        combined_flow_prompt: the text about the selected flows, for a prompt.
        selected_flow_ids: the ids of the flows that fit the turn.
        unresolved_flow_ids: the selected ids without a flow.
        flow_candidates: data of the application.
        tool_calls: the calls of this turn, in order.
        message_id: the id of the user's message; it identifies the turn for `begin_turn`.
        entities_before: the entities that were known before the turn, by name: a repeated turn
            starts from them. `begin_turn` sets it.
    """

    turn_number: Int64 = 0
    enhanced_query: Text = ""
    intent: Text = "unknown"
    sentiment_score: float = 0.0
    is_continuation: bool = True
    is_cancellation: bool = False
    raw_entities: list[JsonObject] = field(default_factory=list)
    retrieved_same_conv_episodes: list[JsonObject] = field(default_factory=list)
    retrieved_prev_conv_episodes: list[JsonObject] = field(default_factory=list)
    retrieved_semantic_terms: list[JsonObject] = field(default_factory=list)
    combined_flow_prompt: Text = ""
    selected_flow_ids: list[Text] = field(default_factory=list)
    unresolved_flow_ids: list[Text] = field(default_factory=list)
    flow_candidates: list[JsonObject] = field(default_factory=list)
    tool_calls: list[ToolCallRecord] = field(default_factory=list)
    message_id: Text = ""
    entities_before: dict[Text, WorkspaceEntity] | None = field(
        default=None, compare=False, repr=False
    )

    @classmethod
    def from_enhancer_and_selector(
        cls,
        turn_number: int,
        enhanced_msg: Any,
        same_episodes: list[dict[str, Any]],
        prev_episodes: list[dict[str, Any]],
        semantic_terms: list[dict[str, Any]],
        selection: Any,
    ) -> TurnCache:
        """Return the turn for an enhanced message and the flows selected for it.

        Args:
            enhanced_msg: a `Message`, or anything with its `enhanced_message`,
                `original_content` (used if the former is empty), `intent`,
                `sentiment_score`, `is_continuation`, `is_cancellation` and `entities`.
            selection: None, or anything with `chosen_flows` (each with an `id`),
                `unresolved_ids`, `candidates` and `combined_prompt`.

        Raises:
            AttributeError: an attribute is missing.
            ValidationError: an attribute has a wrong type.
        """
        cache = cls(
            turn_number=turn_number,
            enhanced_query=enhanced_msg.enhanced_message or enhanced_msg.original_content,
            intent=enhanced_msg.intent or "unknown",
            sentiment_score=enhanced_msg.sentiment_score,
            is_continuation=enhanced_msg.is_continuation,
            is_cancellation=enhanced_msg.is_cancellation,
            raw_entities=[
                {"name": entity.name, "attributes": list(entity.attributes or ())}
                for entity in enhanced_msg.entities or ()
            ],
            retrieved_same_conv_episodes=same_episodes,
            retrieved_prev_conv_episodes=prev_episodes,
            retrieved_semantic_terms=semantic_terms,
        )
        if selection is not None:
            cache.combined_flow_prompt = selection.combined_prompt
            cache.selected_flow_ids = [flow.id for flow in selection.chosen_flows]
            cache.unresolved_flow_ids = selection.unresolved_ids
            cache.flow_candidates = selection.candidates
        return cache

    @property
    def episode_short_summaries(self) -> list[str]:
        """The summaries of the episodes that have one, first those of this conversation."""
        episodes = self.retrieved_same_conv_episodes + self.retrieved_prev_conv_episodes
        return [each["short_summary"] for each in episodes if each.get("short_summary")]

    @property
    def has_flow_selected(self) -> bool:
        """Whether the selector chose any flow."""
        return bool(self.selected_flow_ids)

    @property
    def last_tool_result(self) -> ToolCallRecord | None:
        """The latest tool call of the turn, or None."""
        return self.tool_calls[-1] if self.tool_calls else None

    @property
    def has_failed_tool_call(self) -> bool:
        """Whether any tool call of the turn failed."""
        return any(not call.success for call in self.tool_calls)

    def build_turn_tool_calls_prompt(self) -> str:
        """Return the turn's tool calls as `<current_turn_tool_calls>`, or "" without any."""
        return calls_section("current_turn_tool_calls", self.tool_calls)


def merge_entities(
    known: Mapping[str, WorkspaceEntity],
    mentioned: Iterable[Mapping[str, Any]],
    turn_number: int,
    max_age_turns: int,
    max_attributes: int,
) -> dict[str, WorkspaceEntity]:
    """Return the entities known after a turn, in the order in which they were mentioned last.

    The arguments are not changed.

    Args:
        mentioned: dicts with a `name`, which is stripped (a blank one does not count), and
            optionally `attributes`; each dict is a mention.
        max_age_turns: an entity that was not seen for more turns than this is dropped.
        max_attributes: the number of newest attributes of an entity to keep.

    Raises:
        ValidationError: a name is not a string, or the attributes are not a list of strings.
    """
    merged = dict(known)
    for raw in mentioned:
        name = raw.get("name") or ""
        name = name.strip() if isinstance(name, str) else name
        if name == "":
            continue
        mention = WorkspaceEntity(name, raw.get("attributes") or [], turn_number, mention_count=0)
        before = merged.pop(mention.name, mention)
        unique = list(dict.fromkeys(before.attributes + mention.attributes))
        merged[mention.name] = changed_copy(
            before,
            attributes=unique[max(0, len(unique) - max_attributes) :],
            last_seen_turn=turn_number,
            mention_count=before.mention_count + 1,
        )
    return {
        name: entity
        for name, entity in merged.items()
        if turn_number - entity.last_seen_turn <= max_age_turns
    }
