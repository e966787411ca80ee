"""Run by a test: makes the turn of the guide for each message, and may kill itself at a step.

    python turn_program.py STORE MEMORY STEP MESSAGE…

STORE and MEMORY are configurations as JSON, a message is m0, m1 and so on. Before the step of that
number it ends as with `kill -9`; 0 is none. It prints the id of each message whose turn is made.
The agent is that of the tutorial: of three messages the first one begins a return, the second one
says the reason, and the third one confirms.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable

from jazzmine import ConflictError
from jazzmine.sync import (
    ActiveFlowState,
    Conversation,
    MessageStore,
    PendingConfirmation,
    Slot,
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
    wm = memory.begin_turn(CONVERSATION, TurnCache(message_id=message_id, intent="return"))
    step()
    if store.get_message_by_id(f"{message_id}-reply") is None:
        newest = store.get_messages_by_conversation_id(CONVERSATION, order="newest", limit=1)
        recorder = TurnRecorder(
            conversation_id=CONVERSATION, user_id=USER, agent_id=AGENT, turn_number=wm.turn_number
        )
        recorder.user("Send it back, please.", id=message_id)
        recorder.assistant("It is noted.", id=f"{message_id}-reply")
        store.append_messages(
            CONVERSATION,
            recorder.messages,
            expected_last=newest[-1].id if newest else None,
            trace=recorder.trace,
        )
    step()

    def change(wm: WorkingMemory) -> None:
        counts = wm.data.get("counts", {})
        wm.set_data(counts={**counts, message_id: counts.get(message_id, 0) + 1})
        go_on(wm, message_id)
        wm.end_turn("It is noted.", "return")

    memory.update(CONVERSATION, change, message_id=message_id)
    step()


def go_on(wm: WorkingMemory, message_id: str) -> None:
    """Make the next step of a return."""
    step = int(message_id[1:]) % 3
    if step == 0:
        wm.start_flow(ActiveFlowState(message_id, "Return an order", "sequential"))
        wm.register_slots([Slot("reason", "Why is it sent back?", "text")])
    elif step == 1 and wm.active_flow is not None:
        wm.collect_slot("reason", message_id)
        payload = {"order": message_id}
        question = PendingConfirmation(
            wm.active_flow.flow_id, "Return it?", payload, wm.turn_number
        )
        wm.request_confirmation(question)
    elif step == 2 and wm.confirm_action():
        wm.complete_flow()


def main(stores: tuple[str, str], stop_at: int, message_ids: list[str]) -> None:
    """Make the turns, each again when another program was quicker."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == stop_at:
            os.kill(os.getpid(), signal.SIGKILL)

    with (
        MessageStore.initialize(json.loads(stores[0])) as store,
        WorkingMemoryStore.initialize(json.loads(stores[1])) as memory,
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
    main((sys.argv[1], sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
