"""Have two processes answer the same user at once: one answer is stored, the other is dropped.

JAZZMINE_MESSAGE_STORE=postgresql://… python examples/two_workers.py
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.queues import Queue
from threading import Barrier
from uuid import uuid4

from jazzmine import ConflictError
from jazzmine.sync import Conversation, Message, MessageRole, MessageStore


def say(conversation: Conversation, role: MessageRole, text: str) -> Message:
    """Return a message of a conversation, which is stored nowhere yet."""
    return Message(
        conversation_id=conversation.id,
        user_id=conversation.user_id,
        role=role,
        original_content=text,
    )


def think(context: list[Message], worker: str) -> str:
    """Return the answer of a worker, as its model would."""
    return f"{worker} answers {context[-1].original_content!r}"


def answer(store: MessageStore, conversation: Conversation, worker: str, both_read: Barrier) -> str:
    """Answer the newest message unless another worker does; return what became of it."""
    while True:
        # The newest message may be flagged, or too long for the window: the window tells no order.
        [newest] = store.get_messages_by_conversation_id(conversation.id, order="newest", limit=1)
        if newest.role is MessageRole.ASSISTANT:
            return f"{worker} has nothing to do: {newest.original_content}"
        context = store.get_context_window(conversation.id, max_tokens=4000)
        both_read.wait(30)
        reply = say(conversation, MessageRole.ASSISTANT, think(context, worker))
        try:
            store.append_messages(conversation.id, [reply], expected_last=newest.id)
        except ConflictError:
            continue  # another message is the newest by now: read again, and decide again
        return f"{worker} has answered"


def work(conversation: Conversation, worker: str, both_read: Barrier, results: Queue[str]) -> None:
    """Answer in a process of its own, which opens the store for itself."""
    with MessageStore.initialize() as store:
        results.put(answer(store, conversation, worker, both_read))


def main() -> None:
    conversation = Conversation(id=str(uuid4()), user_id="ada", agent_id="tea-shop")
    with MessageStore.initialize() as store:
        store.get_or_create_conversation(conversation)
        question = say(conversation, MessageRole.USER, "Is there any tea?")
        store.append_messages(conversation.id, [question], expected_last=None)

    start = multiprocessing.get_context("spawn")
    both_read, results = start.Barrier(2), start.Queue()
    workers = [
        start.Process(target=work, args=(conversation, name, both_read, results))
        for name in ("Worker 1", "Worker 2")
    ]
    for worker in workers:
        worker.start()
    outcomes = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    print(*sorted(outcomes, key=len), sep="\n")

    with MessageStore.initialize() as store:
        for message in store.iter_messages(conversation.id):
            print(f"{message.role.value}: {message.original_content}")


if __name__ == "__main__":
    main()
