"""The way to a Redis server: kept connections, repetition within a deadline, redirections."""

from __future__ import annotations

import os
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from jazzmine._compat.redis_aio import Wire
from jazzmine._compat.redis_driver import (
    Address,
    Dialer,
    Trouble,
    diagnose,
    key_slot,
    redirection,
    redis_driver,
    slot_map,
)
from jazzmine._compat.upkeep_aio import sleep
from jazzmine.errors import StoreUnavailableError
from jazzmine.layouts.redis import Script

__all__ = ["Ear", "Link", "pauses"]

Command = Sequence["str | bytes | int"]


class Route(NamedTuple):
    """Where a command is to go: to a server, or in a cluster to the one that has a key."""

    address: Address | None = None
    key: str = ""


class Link:
    """Commands to one server, to the master that Sentinel names, or to a whole cluster.

    Whatever is sent may be repeated, and is when a connection broke or a reply did not come.

    Args:
        dialer: how to connect.
        timeout: how long, in s, a command may take with all its repetitions.
        patience: how long, in s, to wait for one reply before asking again.
    """

    def __init__(self, dialer: Dialer, timeout: float, patience: float) -> None:
        self._dialer = dialer
        self._timeout = timeout
        self._patience = patience
        self._failures = (redis_driver().RedisError, OSError, TimeoutError)
        self._idle: dict[Address | None, deque[Wire]] = {}
        self._idle_ears: dict[Address | None, deque[Ear]] = {}
        self._nodes = dialer.nodes
        self._slots: list[Address] = []  # of a cluster, as far as it is known
        self._closed = False

    def deadline(self) -> float:
        """Return when a call that begins now has to end."""
        return time.monotonic() + self._timeout

    async def open(self) -> None:
        """Make sure that the server is there.

        Raises:
            StoreUnavailableError: it is not; one that refuses is not asked again.
        """
        await self._patiently(Route(), ("PING",), self.deadline(), insist=False)

    async def close(self) -> None:
        """Hang up everywhere."""
        self._closed = True
        for address in [*self._idle]:
            await self._forget(address)
        for ears in self._idle_ears.values():
            while ears:
                await ears.pop().close()

    async def run(
        self, script: Script, keys: Sequence[str], arguments: Command, until: float
    ) -> Any:
        """Run a script, of which the server may know the digest already."""
        command = ("EVALSHA", script.digest, len(keys), *keys, *arguments)
        try:
            return await self.command(command, keys[0], until)
        except self._failures as error:
            if diagnose(error) is not Trouble.UNKNOWN_SCRIPT:
                raise
        return await self.command(("EVAL", script.text, *command[2:]), keys[0], until)

    async def command(self, command: Command, key: str, until: float) -> Any:
        """Send a command to the server that has the key, and return the reply.

        Raises:
            StoreUnavailableError: there was no reply before `until`.
            ResponseError: the server's answer is an error.
        """
        return await self._patiently(Route(key=key), command, until)

    async def command_at(self, address: Address | None, command: Command, until: float) -> Any:
        """Send a command to one of the `primaries`, and return the reply."""
        return await self._patiently(Route(address), command, until)

    async def primaries(self, until: float) -> list[Address | None]:
        """Return the addresses of all servers that have a part of the keys."""
        if not self._nodes:
            return [None]
        if not self._slots:
            await self._patiently(Route(), ("PING",), until)
        return [*dict.fromkeys(self._slots)]

    @asynccontextmanager
    async def listening(self, key: str) -> AsyncIterator[Ear]:
        """Have a channel of one's own in a block, at the server that has a key.

        In trouble pauses stand in for what the channel would have told.
        """
        address = self._slots[key_slot(key)] if self._slots else None
        idle = self._idle_ears.setdefault(address, deque())
        ear = idle.pop() if idle else Ear(Wire(self._dialer.connection(address)), self._failures)
        try:
            if not ear.hears:
                await ear.listen(self._patience)
            yield ear
        except BaseException:
            # Who left the line wants no message; hanging up is how the server learns of it.
            await ear.close()
            raise
        if ear.hears and not self._closed:
            idle.append(ear)
        else:
            await ear.close()

    async def _patiently(
        self, route: Route, command: Command, until: float, *, insist: bool = True
    ) -> Any:
        """Repeat a command until there is an answer, or the deadline."""
        again = pauses(0.01, 1.0)
        address, asking = route.address, False
        while True:
            try:
                if not asking:
                    address = route.address or await self._address_of(route.key, until)
                return await self._ask(address, command, until, asking)
            except self._failures as error:
                trouble = diagnose(error)
                if trouble in (Trouble.ANSWER, Trouble.UNKNOWN_SCRIPT):
                    raise
                pause = 0.0 if trouble is Trouble.ELSEWHERE else next(again)
                late = time.monotonic() + pause >= until
                if late or trouble is Trouble.DENIED or (trouble is Trouble.BROKEN and not insist):
                    raise self._unavailable(address, error) from error
                asking = False
                if trouble is Trouble.ELSEWHERE and address is not None:
                    asking, address = self._redirected(error, address)
                elif trouble is Trouble.BROKEN:
                    await self._forget(address)
            if pause:
                await sleep(pause)

    async def _ask(
        self, address: Address | None, command: Command, until: float, asking: bool = False
    ) -> Any:
        """Send a command once, over a kept connection or a new one."""
        idle = self._idle.setdefault(address, deque())
        try:
            wire = idle.pop()
        except IndexError:
            wire = Wire(self._dialer.connection(address))
        try:
            left = max(until - time.monotonic(), 0.001)
            if asking:
                await wire.ask(("ASKING",), min(self._patience, left))
            reply = await wire.ask(command, min(self._patience, left))
        except BaseException as error:
            if isinstance(error, redis_driver().ResponseError) and not self._closed:
                idle.append(wire)
            else:
                await wire.close()
            raise
        if self._closed:
            await wire.close()
        else:
            idle.append(wire)
        return reply

    async def _forget(self, address: Address | None) -> None:
        """Hang up at an address that gave trouble: it may not be what it was."""
        self._slots = []
        wires = self._idle.get(address)
        while wires:
            await wires.pop().close()

    async def _address_of(self, key: str, until: float) -> Address | None:
        if not self._nodes:
            return None
        slots = self._slots or await self._map_slots(until)
        return slots[key_slot(key)]

    async def _map_slots(self, until: float) -> list[Address]:
        """Ask one node after the other how the keys are spread."""
        for number, node in enumerate(self._nodes):
            try:
                reply = await self._ask(node, ("CLUSTER", "SLOTS"), until)
            except self._failures:
                if number + 1 == len(self._nodes):
                    raise
            else:
                self._slots = slot_map(reply, node)
                self._nodes = tuple(dict.fromkeys([*self._slots, *self._nodes]))
                break
        return self._slots

    def _redirected(self, error: BaseException, address: Address) -> tuple[bool, Address]:
        """Learn where a slot went; return whether that holds for one command, and the node."""
        slot, target, once = redirection(error, address)
        if not once and self._slots:
            self._slots[slot] = target
        return once, target

    def _unavailable(self, address: Address | None, error: BaseException) -> StoreUnavailableError:
        where = self._dialer.where(address)
        return StoreUnavailableError(f"Redis at {where} is not available: {error}")


class Ear:
    """A connection with a channel of its own, on which somebody else may wake who waits."""

    def __init__(self, wire: Wire, failures: tuple[type[BaseException], ...]) -> None:
        self._wire = wire
        self._failures = failures
        self.channel = "wm_wake:" + os.urandom(12).hex()
        self.hears = False

    async def listen(self, timeout: float) -> None:
        """Begin to hear what is told on the channel, if that is possible."""
        try:
            await self._wire.ask(("SUBSCRIBE", self.channel), timeout)
            self.hears = True
        except self._failures:
            await self.close()

    async def wait(self, timeout: float) -> None:
        """Wait for a message, `timeout` s at most; one that hears nothing just pauses."""
        if self.hears:
            try:
                await self._wire.hear(timeout)
                return
            except self._failures:
                await self.close()
        await sleep(min(timeout, random.uniform(0.02, 0.1)))

    async def close(self) -> None:
        """Hang up."""
        self.hears = False
        await self._wire.close()


def pauses(first: float, most: float) -> Iterator[float]:
    """Yield times, in s, that grow from about `first` to about `most`, each by chance."""
    pause = first
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, most)
