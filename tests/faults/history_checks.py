"""Whether some order explains the results of concurrent calls on one conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.faults.histories import (
    READS,
    Recorder,
    is_related,
    memory_model,
    message_model,
    message_set_model,
)
from tests.faults.linearizability import (
    UNKNOWN,
    Operation,
    TooHardError,
    bounded,
    is_linearizable,
    with_repetitions,
)
from tests.faults.log_histories import LogRecorder, log_model
from tests.faults.networks import is_memory
from tests.faults.sizes import size

# On these servers a new message gets its sequence when its statement begins, not when it takes
# effect. So of two messages with equal times that are stored concurrently, the one that is visible
# first may be the second in order. A message that is stored after another one was acknowledged
# comes after it.
UNORDERED = ("postgres", "mongodb")
# Stores that repeat a write whose reply was lost, and may be given up with an outcome that is
# decided at any later time.
REPEATING = ("postgres",)
# Of how many saves working memory keeps the marks, by which a repetition finds that it was done.
MARKS = 16
Client = Recorder | LogRecorder

CALLS = size(25, 50)


def check(
    name: str,
    recorders: Sequence[Client],
    *,
    one_store: bool = True,
    lost: Sequence[float] = (),
) -> int:
    """Fail unless the results of all calls are possible for some order of them.

    Args:
        name: that of the store.
        recorders: the clients.
        one_store: whether all calls used one store; then what was given up cannot take effect
            after a later, related call has returned: one on the same message or, in a log, a write.
        lost: when replies were lost.

    Returns:
        How many calls there were; 0 if it would take too long to find an order.
    """
    history: list[Operation] = [one for recorder in recorders for one in recorder.history]
    assert len(history) > len(recorders) * CALLS / 2
    is_log = isinstance(recorders[0], LogRecorder)
    if name in REPEATING:
        history = with_repetitions(history, READS, lost)
    elif is_memory(name) and not one_store:
        history = with_repetitions(history, READS, lost, recognized_among=MARKS)
    elif one_store:
        related = is_log_write if is_log else is_always if is_memory(name) else is_related
        history = bounded(history, related)
    try:
        possible = is_possible(name, history, is_log)
    except TooHardError:
        return 0
    assert possible, "no order of the calls explains what they returned"
    return len(history)


def is_log_write(_: Operation, later: Operation) -> bool:
    return later.name not in READS


def is_always(_: Operation, __: Operation) -> bool:
    return True


def is_possible(name: str, history: list[Operation], is_log: bool) -> bool:
    if is_memory(name):
        return is_linearizable(history, (1, None), memory_model, reads=READS)
    model = log_model if is_log else message_model
    if name in UNORDERED and not is_log:
        model = message_set_model
        history = [unordered(operation) for operation in history]
    return is_linearizable(history, (), model, reads=READS)


def unordered(operation: Operation) -> Operation:
    if operation.name == "list" and operation.result is not UNKNOWN:
        operation = replace(operation, result=tuple(sorted(operation.result)))
    return operation
