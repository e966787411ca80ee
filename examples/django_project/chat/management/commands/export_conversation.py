"""Write a conversation to stdout: `manage.py export_conversation ID > conversation.jsonl`."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from chat.stores import message_store


class Command(BaseCommand):
    """Exports the conversation, then its messages, oldest first, one JSON object a line."""

    help = "Writes a conversation and its messages as JSON lines, however many there are."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's argument."""
        parser.add_argument("conversation_id")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the conversation and its messages."""
        store, cid = message_store(), options["conversation_id"]
        conversation = store.get_conversation_by_id(cid)
        if conversation is None:
            raise CommandError(f"there is no conversation {cid!r}")
        self.stdout.write(conversation.model_dump_json())
        for message in store.iter_messages(cid):
            self.stdout.write(message.model_dump_json())
