"""Run by a test: makes the turn of the guide for each message, and may kill itself at a step.

    python turn_program.py FILE STEP MESSAGE…

Before the step of that number it ends as with `kill -9`; 0 is none. It prints the id of each
message whose turn is made.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from jazzmine import ConflictError
from jazzmine.sync import (
    Conversation,
    MessageStore,
    TurnCache,
    TurnRecorder,
    WorkingMemory,
    WorkingMemoryStore,
)

CONVERSATION, USER, AGENT = "c1", "ada", "desk"


def turn(
    store: MessageStore, memory: WorkingMemoryStore, message_id: str, step: Callable[[], None]
) -> None:
    """Make one turn as the guide does."""
    step()
    store.get_or_create_conversation(Conversation(id=CONVERSATION, user_id=USER, agent_id=AGENT))
    memory.get_or_create(CONVERSATION, USER, AGENT)
    step()
    wm = memory.begin_turn(CONVERSATION, TurnCache(message_id=message_id, intent="order"))
    step()
    if store.get_message_by_id(f"{message_id}-reply") is None:
        newest = store.get_messages_by_conversation_id(CONVERSATION, order="newest", limit=1)
        recorder = TurnRecorder(
            conversation_id=CONVERSATION, user_id=USER, agent_id=AGENT, turn_number=wm.turn_number
        )
        recorder.user("One more, please.", id=message_id)
        recorder.assistant("It is in your cart.", id=f"{message_id}-reply")
        store.append_messages(
            CONVERSATION,
            recorder.messages,
            expected_last=newest[-1].id if newest else None,
            trace=recorder.trace,
        )
    step()

    def change(wm: WorkingMemory) -> None:
        cart = wm.data.get("cart", {})
        wm.set_data(cart={**cart, message_id: cart.get(message_id, 0) + 1})
        wm.end_turn("It is in your cart.", "order")

    memory.update(CONVERSATION, change, message_id=message_id)
    step()


def main(path: str, stop_at: int, message_ids: list[str]) -> None:
    """Make the turns, each again when another program was quicker."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == stop_at:
            os.kill(os.getpid(), signal.SIGKILL)

    with (
        MessageStore.initialize(f"sqlite:{path}") as store,
        WorkingMemoryStore.initialize(f"sqlite:{path}") as memory,
    ):
        for message_id in message_ids:
            while True:
                try:
                    turn(store, memory, message_id, step)
                except ConflictError:
                    continue
                break
            print(message_id, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
