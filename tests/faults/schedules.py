"""Random network faults in a schedule that can be repeated by its seed."""

from __future__ import annotations

import heapq
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.servers.proxy import Proxy


def seed() -> int:
    """The seed that JAZZMINE_SEED names, or a new one."""
    return int(os.environ.get("JAZZMINE_SEED") or random.SystemRandom().randrange(1_000_000))


@dataclass
class Fault:
    """A fault of the network, and when it was caused, by the clock of the histories."""

    moment: float
    what: str


@dataclass(order=True)
class _Step:
    moment: float
    number: int
    do: Callable[[], object] = field(compare=False)


class Schedule:
    """Causes random faults of a network in a block, and ends them at the end of the block.

    The same seed makes the same choices in the same order. Which calls are affected depends on the
    machine, so a seed often repeats a failure, but not always.

    Args:
        proxy: the proxy in front of the server.
        seed: the seed of the random choices.
        pause: the longest time between two faults, in seconds.
        longest: the longest time that a fault lasts, in seconds.
        mild: whether the only faults are lost replies and cut connections.
    """

    def __init__(
        self,
        proxy: Proxy,
        seed: int,
        *,
        pause: float = 0.4,
        longest: float = 3.0,
        mild: bool = False,
    ) -> None:
        self.faults: list[Fault] = []
        self.longest = longest
        self.proxy = proxy
        self._pause = pause
        self._possible = {_lose_a_reply: 2, _cut: 1} if mild else FAULTS
        self.chance = random.Random(seed)
        self._steps: list[_Step] = []
        self._numbers = count()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Schedule:
        self.proxy.on_loss = lambda: self._note("a reply was lost")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        _end_faults(self.proxy)
        self._note("the faults have ended, held data is delivered")
        self.proxy.deliver()

    def do(self, what: str, step: Callable[[], object]) -> None:
        """Cause one random fault."""
        self._note(what)
        step()

    def later(self, delay: float, what: str, step: Callable[[], object]) -> None:
        """Call a function after so many seconds."""
        self._push(delay, lambda: self.do(what, step))

    def _note(self, what: str) -> None:
        self.faults.append(Fault(time.monotonic(), what))

    def _push(self, delay: float, do: Callable[[], object]) -> None:
        heapq.heappush(self._steps, _Step(time.monotonic() + delay, next(self._numbers), do))

    def _run(self) -> None:
        self._push(self.chance.uniform(0, self._pause), self._disturb)
        while not self._over.wait(max(0.0, self._steps[0].moment - time.monotonic())):
            heapq.heappop(self._steps).do()

    def _disturb(self) -> None:
        weights = list(self._possible.values())
        [fault] = self.chance.choices(list(self._possible), weights)
        fault(self)
        self._push(self.chance.uniform(0, self._pause), self._disturb)


def _end_faults(proxy: Proxy) -> None:
    proxy.delay = proxy.drip = 0.0
    proxy.swallow_requests = proxy.swallow_replies = False
    proxy.lose_reply(0)


def _hold(schedule: Schedule) -> None:
    """Hold what one client sends, sometimes close its connection, and deliver it later."""
    chance, connections = schedule.chance, schedule.proxy.open
    number, after = chance.random(), chance.randrange(3)
    ends, delay = chance.random() < 0.5, chance.uniform(0, schedule.longest / 4)
    lasts = chance.uniform(0.1, schedule.longest)
    if not connections:
        return
    connection = connections[int(number * len(connections))]
    name = f"connection {connection.number}"
    schedule.do(f"{name}: held from chunk {after} on", lambda: connection.hold(after))
    if ends:
        schedule.later(delay, f"{name}: its client is cut off", connection.cut_client)
    schedule.later(lasts, f"{name}: delivered", connection.deliver)


def _cut(schedule: Schedule) -> None:
    """Close one connection or all; held data stays held."""
    chance, connections = schedule.chance, schedule.proxy.open
    number = chance.random()
    if chance.random() < 0.5:
        schedule.do("all clients are cut off", schedule.proxy.cut_clients)
    elif connections:
        connection = connections[int(number * len(connections))]
        schedule.do(f"connection {connection.number}: cut", connection.cut)


def _lose_a_reply(schedule: Schedule) -> None:
    number = schedule.chance.randrange(1, 8)
    schedule.do(
        f"reply {number} from now on: to be lost", lambda: schedule.proxy.lose_reply(number)
    )


def _set(name: str, low: float, high: float) -> Callable[[Schedule], None]:
    """Set an attribute of the proxy for some time."""

    def fault(schedule: Schedule) -> None:
        value: Any = schedule.chance.uniform(low, high)
        lasts = schedule.chance.uniform(0, schedule.longest / 8)
        if not high:
            value, lasts = True, lasts / 4
        proxy = schedule.proxy
        schedule.do(f"{name} = {value}", lambda: setattr(proxy, name, value))
        schedule.later(lasts, f"{name} = 0", lambda: setattr(proxy, name, type(value)(0)))

    return fault


FAULTS: dict[Callable[[Schedule], None], int] = {
    _hold: 8,
    _cut: 2,
    _lose_a_reply: 3,
    _set("delay", 0.01, 0.2): 2,
    _set("drip", 0.0001, 0.002): 1,
    _set("swallow_requests", 0, 0): 1,
    _set("swallow_replies", 0, 0): 1,
}
"""The faults of the network, and the relative frequency of each."""
