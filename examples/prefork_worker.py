"""A pool of forked workers, as Celery's, on one store that was opened before they were forked.

    JAZZMINE_MESSAGE_STORE=postgresql://… python examples/prefork_worker.py tea-shop

It keeps card numbers out of the agent's prompts: messages that contain one are flagged, and
so left out of `get_immediate_context`. Flagging again has no further effect, so that a task whose
worker died can be repeated.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import sys

from jazzmine.sync import MessageStore

CARD_NUMBER = re.compile(r"\b(?:\d[ -]?){15}\d\b")

# Opened once, in the parent: a child opens its own connections at its first call, and never uses
# those that it inherited.
store = MessageStore.initialize()


def flag_card_numbers(conversation_id: str) -> tuple[str, int, int]:
    """The task, run in a child: flag messages with card numbers, and return their number."""
    found = 0
    for message in store.iter_messages(conversation_id):
        if CARD_NUMBER.search(message.original_content):
            found += store.flag_message(message.id)
    return conversation_id, found, os.getpid()


def main(agent_id: str) -> None:
    """Run a task for each conversation of an agent."""
    conversations = store.get_conversations_by_agent_id(agent_id)
    forking = multiprocessing.get_context("fork")
    with forking.Pool(processes=4) as pool:
        tasks = [conversation.id for conversation in conversations]
        for conversation_id, found, process in pool.imap_unordered(flag_card_numbers, tasks):
            print(f"{conversation_id}: flagged {found} (process {process})")
    store.close()


if __name__ == "__main__":
    main(sys.argv[1])
