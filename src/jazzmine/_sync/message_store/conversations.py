"""The methods of a message store about conversations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jazzmine._sync.message_store.records import StoredRecords
from jazzmine._sync.operation import operation
from jazzmine.records.arguments import require_id, require_metadata, require_text
from jazzmine.records.base import snapshot
from jazzmine.records.conversation_log import merged
from jazzmine.records.hook_arguments import ConversationPage, Turn
from jazzmine.records.json_values import contains
from jazzmine.records.messages import Conversation

__all__ = ["ConversationMethods"]


class ConversationMethods(StoredRecords):
    """Stores, lists, changes and deletes conversations."""

    @operation()
    def store_conversation(self, conversation: Conversation) -> None:
        """Store a conversation, in place of the one with the same id if there is one."""
        self._put(Turn([snapshot(conversation, Conversation)]))

    @operation()
    def update_conversation(self, conversation: Conversation) -> None:
        """Do the same as `store_conversation`."""
        self._put(Turn([snapshot(conversation, Conversation)]))

    @operation()
    def get_or_create_conversation(self, conversation: Conversation) -> Conversation:
        """Return the stored conversation with the same id; store this one if there is none."""
        given = snapshot(conversation, Conversation)
        row = self.backend.create_conversation(self._encoded(given))
        return given.record if row is None else self._conversations.record(row)

    @operation()
    def edit_conversation(
        self,
        conversation_id: str,
        *,
        title: str | None = None,
        default_title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Conversation:
        """Change the title and some of the metadata of a conversation, and nothing else.

        Args:
            conversation_id: which conversation.
            title: the new title; None leaves it as it is.
            default_title: a title for a conversation that has none, such as one that a model has
                made; a title that somebody has set meanwhile stays.
            metadata: the values to set by key, whatever other keys there are; None as a value
                removes a key.

        Returns:
            The conversation as it is stored now.

        Raises:
            NotFoundError: the conversation is not stored.
        """
        owner = require_id("conversation_id", conversation_id)
        changes = require_metadata("metadata", metadata)
        new_title = None if title is None else require_text("title", title)
        default = "" if default_title is None else require_text("default_title", default_title)

        def edited(stored: Conversation) -> Conversation:
            text = (stored.title or default) if new_title is None else new_title
            fields = {"title": text, "metadata": merged(stored.metadata, changes)}
            return stored.model_copy(update=fields)

        return self._edit("conversations", self._conversations, Conversation, owner, edited)

    @operation("conversations")
    def get_conversation_by_id(self, conversation_id: str) -> Conversation | None:
        """Return the conversation, or None."""
        row = self.backend.get_conversation(require_id("conversation_id", conversation_id))
        return None if row is None else self._conversations.record(row)

    @operation("conversations")
    def get_conversations(
        self,
        *,
        where: Mapping[str, Any] | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Conversation]:
        """Return all conversations, newest `last_updated_at` first.

        Args:
            where: only those whose `metadata` has these keys with these values; None as a value
                wants the key to be there with null.
            limit: how many at most; None is no limit.
            after: the id of the last conversation of the page before.

        Raises:
            NotFoundError: `after` is no conversation.
        """
        page = ConversationPage(None, "", require_metadata("where", where), limit, after)
        return self._list_conversations(page)

    @operation("conversations")
    def get_conversations_by_user_id(
        self,
        user_id: str,
        *,
        where: Mapping[str, Any] | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Conversation]:
        """Return a user's conversations, newest `last_updated_at` first.

        Equal ones come latest stored first.

        Args:
            user_id: whose conversations.
            where: as in `get_conversations`.
            limit: how many at most; None is no limit.
            after: the id of the last conversation of the page before.

        Raises:
            NotFoundError: `after` is no conversation of this user.
        """
        owner, wanted = require_id("user_id", user_id), require_metadata("where", where)
        page = ConversationPage("user_id", owner, wanted, limit, after)
        return self._list_conversations(page)

    @operation("conversations")
    def get_conversations_by_agent_id(
        self,
        agent_id: str,
        *,
        user_id: str | None = None,
        where: Mapping[str, Any] | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Conversation]:
        """Return an agent's conversations, newest `last_updated_at` first.

        Equal ones come latest stored first.

        Args:
            agent_id: whose conversations.
            user_id: only those with this user.
            where: as in `get_conversations`.
            limit: how many at most; None is no limit.
            after: the id of the last conversation of the page before.

        Raises:
            NotFoundError: `after` is no conversation of this agent.
        """
        owner, wanted = require_id("agent_id", agent_id), require_metadata("where", where)
        user = None if user_id is None else require_id("user_id", user_id)
        page = ConversationPage("agent_id", owner, wanted, limit, after, user)
        return self._list_conversations(page)

    def _list_conversations(self, page: ConversationPage) -> list[Conversation]:
        read, where = self.backend.list_conversations, page.where
        if self.codec is None or not where:
            return self._page(self._conversations, read, page)

        # The metadata is encrypted: each conversation is read and decrypted.
        def matches(conversation: Conversation) -> bool:
            return contains(conversation.metadata, where)

        page = page._replace(where={})
        return self._page(self._conversations, read, page, matches=matches)

    @operation("conversations")
    def delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation, its messages and their traces; return whether it was stored."""
        owner = require_id("conversation_id", conversation_id)
        return self.backend.delete_conversation(owner)
