"""What a store loses, doubles, mixes up or keeps: each scenario returns its figures by name."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate

from benchmarks.rivals.places import Place
from benchmarks.rivals.store import EVERYTHING, said, turn
from benchmarks.rivals.workers import Worker, opened
from tests.servers.proxy import Proxy

Figures = dict[str, float]

NAME = "Quartermain"
"""The name of a user who is erased."""

LONGEST = 0.02
"""The longest pause of a model or a tool, in s."""

ATTEMPTS = 3
"""How often a caller tries again after an error."""


def at_once(workers: Sequence[Worker], place: Place, each: int) -> Figures:
    """Processes that add to one session two messages at a time.

    A message is lost if its call returned and it is not there; two that were added together are
    torn apart if another one is between them.
    """
    with opened(workers, place.address):
        workers[0].call("create", session="busy", user="ada", title="")
        workers[0].call("add", session="busy", user="ada", messages=[said("first")])
        for worker in workers:
            worker.call("warm_up", session="busy", user="ada")
        for number, worker in enumerate(workers):
            ids = {"prefix": str(number), "pairs": each // 2}
            worker.send("add_pairs", session="busy", user="ada", **ids)
        replies = [worker.receive() for worker in workers]
        stored = _ids(workers[0], "busy")
    refused: dict[str, str] = {}
    for reply in replies:
        refused |= reply["refused"]
    wanted = {f"{number}.{index}" for number in range(len(workers)) for index in range(each)}
    places = {id: index for index, id in enumerate(stored)}
    return {
        "refused": len(refused),
        "lost": len(wanted - set(refused) - set(stored)),
        "torn": sum(
            places[f"{worker}.{number}"] + 1 != places[f"{worker}.{number + 1}"]
            for worker in range(len(workers))
            for number in range(0, each, 2)
            if {f"{worker}.{number}", f"{worker}.{number + 1}"} <= places.keys()
        ),
        "seconds": max(reply["seconds"] for reply in replies),
    }


def killed(reader: Worker, writer: Worker, place: Place, kills: int) -> Figures:
    """Processes that are killed, one after another, while each writes turns to a session.

    Args:
        reader: makes the sessions, and reads them after the kills.
        writer: starts the processes that write, and kills them.
    """
    partly = 0
    with opened([reader], place.address):
        for number in range(kills):
            session = {"session": f"killed-{number}", "user": "ada"}
            reader.call("create", **session, title="")
            writer.call("start_turns", place=place.address, **session, longest=LONGEST)
            try:
                _wait_for_turn(reader, session)
                time.sleep(random.uniform(0, 3 * LONGEST))
            finally:
                writer.call("kill_turns")
            stored = reader.call("newest", **session, count=EVERYTHING)
            partly += len(stored) % 4 != 0
    return {"in part": partly}


def _wait_for_turn(reader: Worker, session: Mapping[str, str]) -> None:
    """Wait until a session has a turn."""
    until = time.monotonic() + 60
    while len(reader.call("newest", **session, count=8)) < 4:
        if time.monotonic() > until:
            raise TimeoutError(f"no turn of {session}")
        time.sleep(0.01)


def reply_dropped(worker: Worker, place: Place, port: int, rounds: int = 5) -> Figures:
    """The k-th reply to adding a turn is dropped, and its connection cut, for each k in turn.

    The caller adds the same messages again after an error, a few times.
    """
    session = {"session": "dropped", "user": "ada"}
    with Proxy(port) as proxy, opened([worker], place.through(proxy.port)):
        worker.call("create", **session, title="")
        worker.call("add", **session, messages=[said("first")])
        for attempt in range(rounds):
            for number in range(1, 100):
                messages = turn(f"t{attempt}-{number}")
                before = proxy.lost
                proxy.lose_reply(number)
                for _ in range(ATTEMPTS):
                    if not worker.call("try_add", **session, messages=messages):
                        break
                if proxy.lost == before:
                    break
        proxy.lose_reply(0)
        counts = Counter(_ids(worker, "dropped"))
    return {"doubled": sum(count - 1 for count in counts.values())}


def clock_ahead(
    workers: Sequence[Worker], place: Place, messages: int, ahead: float = 0.4
) -> Figures:
    """Two processes add in turn, each after the other's call returned; one's clock is ahead."""
    workers[0].call("set_clock", ahead=ahead)
    with opened(workers, place.address):
        workers[0].call("create", session="turns", user="ada", title="")
        kept = set()
        for number in range(messages):
            given = {"session": "turns", "user": "ada", "messages": [said(str(number))]}
            if not workers[number % 2].call("try_add", **given):
                kept.add(str(number))
        stored = _ids(workers[1], "turns")
    return {
        "refused": messages - len(kept),
        "out of order": _inversions(stored),
        "lost": len(kept - set(stored)),
    }


def erased(worker: Worker, place: Place) -> Figures:
    """A user is erased; how many rows hold the name afterwards.

    The name is in the user's id, in the titles of three sessions, and in what was said.
    """
    user, sessions = f"ada {NAME}", [f"s{number}" for number in range(3)]
    with opened([worker], place.address):
        for session, owner in [*((name, user) for name in sessions), ("other", "bob")]:
            name = NAME if owner == user else "Bob"
            worker.call("create", session=session, user=owner, title=f"{name}'s order")
            for number in range(10):
                messages = turn(f"{session}-{number}", f"I am {name}: where is my order?")
                worker.call("add", session=session, user=owner, messages=messages)
        worker.call("erase", user=user, sessions=sessions)
        return {"left": sum(NAME.encode() in row for row in place.values())}


def _ids(worker: Worker, session: str) -> list[str]:
    stored = worker.call("newest", session=session, user="ada", count=EVERYTHING)
    return [message["id"] for message in stored]


def _inversions(ids: Sequence[str]) -> int:
    """How many messages come after a later one."""
    numbers = [int(id.rpartition(".")[2]) for id in ids]
    return sum(
        number < newest for number, newest in zip(numbers, accumulate(numbers, max), strict=True)
    )
