"""The enums of working memory."""

from __future__ import annotations

from jazzmine.records.enums import ConversationStatus, FlowStatus

__all__ = ["ConversationStatus", "FlowStatus"]
