"""PostgreSQL stores to measure: a server, equal calls on both libraries, bare statements."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import statistics
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.records import conversation_id, conversations, message_id, messages
from benchmarks.frame.scenario import Figures, Scenario
from jazzmine.core.message_store import MessageStore
from jazzmine.core.message_store.models import (
    EmissionRecord,
    LLMCallRecord,
    Message,
    ScriptGenAttempt,
    TaskEmission,
    ToolTrace,
    TurnTrace,
)

SPREAD = 100
STORED = 5_000
MANY = 2_000
NEW_BATCHES = 40
NEW = 1_000_000
"""The first number of messages that are added and deleted."""


@contextmanager
def database(fsync: bool) -> Iterator[str]:
    """A DSN of an empty database: JAZZMINE_TEST_POSTGRES, or a server of this run."""
    given = os.environ.get("JAZZMINE_TEST_POSTGRES")
    if given:
        yield given
        return
    from tests.servers.postgres import Server

    with Server("18", fsync=fsync) as server:
        yield server.dsn


def schema_of_this_process() -> str:
    """Each library has its own tables; the predecessor uses the default schema of its session."""
    import jazzmine

    ours = getattr(jazzmine, "__file__", None) is not None
    return "jazzmine_bench_ours" if ours else "jazzmine_bench_old"


async def open_store(dsn: str, **options: object) -> Any:
    schema = schema_of_this_process()
    config: dict[str, object] = {"storage": "postgres", "dsn": dsn, **options}
    if schema.endswith("ours"):
        config["schema"] = schema
    else:
        config["dsn"] = f"{dsn}?search_path={schema}"
    return await MessageStore.initialize(config)


class Fill(Scenario):
    """Creates the tables of a library, and fills them."""

    def __init__(self, folder: Path, dsn: str) -> None:
        super().__init__(folder)
        self._dsn = dsn

    async def measure(self) -> Figures:
        store = await open_store(self._dsn)
        for one in conversations(SPREAD):
            await store.store_conversation(one)
        await store.store_messages(messages(0, STORED, SPREAD))
        for number in range(200):
            await store.store_turn_trace(trace(number))
        await store.close()
        return {}


class NewSchemas(Scenario):
    """Drops the schemas of an earlier run."""

    def __init__(self, folder: Path, dsn: str) -> None:
        super().__init__(folder)
        self._dsn = dsn

    def measure(self) -> Figures:
        import psycopg

        with psycopg.connect(self._dsn, autocommit=True) as connection:
            for name in ("jazzmine_bench_ours", "jazzmine_bench_old"):
                connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())
                connection.execute(f"CREATE SCHEMA {name}".encode())
        return {}


def filled(lab: Lab, dsn: str) -> None:
    """Fill both libraries' tables."""
    options: dict[str, object] = {"dsn": dsn}
    sides = [Side(Fill, options, predecessor=True)]
    if not lab.self_check:
        sides = [Side(NewSchemas, options), Side(Fill, options), *sides]
    for side in sides:
        with lab.worker(side) as worker:
            worker.call("measure")


def trace(number: int, message: Message | None = None) -> TurnTrace:
    """The trace of a turn with two calls of a model and a tool: about 3 KB."""
    at = 1_700_000_000_000 + number
    return TurnTrace(
        id=f"trace-{number}",
        message_id=message.id if message else message_id(number),
        conversation_id=message.conversation_id if message else conversation_id(number % SPREAD),
        user_id="user",
        agent_id="agent",
        turn_number=number,
        started_at_ms=at,
        ended_at_ms=at + 900,
        total_latency_ms=900,
        total_prompt_tokens=1_200,
        total_completion_tokens=300,
        total_tokens=1_500,
        llm_calls=[
            LLMCallRecord(
                call_id=f"call-{number}-{n}",
                purpose="agent_loop",
                model="a-model",
                prompt_tokens=600,
                completion_tokens=150,
                total_tokens=750,
                latency_ms=400,
                timestamp_ms=at,
            )
            for n in range(2)
        ],
        task_emissions=[
            TaskEmission(
                task_index=1,
                sandbox="orders",
                mode="plan",
                description="Look it up",
                timestamp_ms=at,
            )
        ],
        tool_traces=[
            ToolTrace(
                task_index=1,
                sandbox="orders",
                mode="plan",
                description="Look the order up and say where it is",
                generation_attempts=[ScriptGenAttempt(attempt=1, success=True)],
                final_script="order = orders.get('4711')\nprint(order.state)\n" * 5,
                success=True,
                final_data={"order": {"id": "4711", "state": "delivered", "total": 39.9}},
                api_calls=[{"path": "/orders/4711", "status": 200}],
            )
        ],
        emission_records=[EmissionRecord(type="llm", energy_kwh=0.001, co2_g=0.3)],
        reasoning_steps=["The customer asks for an order.", "It was delivered on Monday."],
        detected_intent="order_status",
    )


def new_numbers() -> range:
    """Numbers of new messages that no other process takes: one stored again is not written."""
    first = NEW + 2 * MANY * secrets.randbelow(100_000)
    return range(first, first + MANY)


def new_messages(count: int) -> list[Message]:
    """Messages that are stored for the first time.

    Storing known ones again writes so few bytes that a disk flushes one block again and again,
    which is several times slower on some disks than writing on.
    """
    first = new_numbers().start
    return messages(first, first + count, SPREAD)


def _calls(store: Any, name: str, numbers: range) -> dict[str, Callable[[int], Awaitable[object]]]:
    """The calls that are measured, each for a number that grows."""
    first = numbers.start
    made = messages(first, first + MANY, SPREAD)
    # Created before the measurement, and only for the call that needs them, because they would
    # slow down all other calls.
    new = range(4 * NEW, 4 * NEW + NEW_BATCHES * 1_000 * (name == "store_messages, new"), 1_000)
    new_batches = iter([messages(first, first + 1_000, SPREAD) for first in new])
    chats = conversations(SPREAD)
    traces = [trace(first + n, message) for n, message in enumerate(made)]

    said = messages(first + MANY, first + 2 * MANY, SPREAD)
    turns = [trace(first + MANY + n, said[2 * n + 1]) for n in range(MANY // 2)]

    async def four_calls(n: int) -> None:
        turn = n % (MANY // 2)
        await store.store_conversation(chats[n % SPREAD])
        await store.store_message(said[2 * turn])
        await store.store_message(said[2 * turn + 1])
        await store.store_turn_trace(turns[turn])

    async def store_turn(n: int) -> None:
        turn = n % (MANY // 2)
        pair = said[2 * turn : 2 * turn + 2]
        await store.store_turn(conversation=chats[n % SPREAD], messages=pair, trace=turns[turn])

    return {
        "store_conversation": lambda n: store.store_conversation(chats[n % SPREAD]),
        "get_conversation_by_id": lambda n: store.get_conversation_by_id(chats[n % SPREAD].id),
        "store_message": lambda n: store.store_message(made[n % MANY]),
        "get_message_by_id": lambda n: store.get_message_by_id(message_id(n % STORED)),
        "get_immediate_context": lambda n: store.get_immediate_context(chats[n % SPREAD].id, 20),
        "flag_message": lambda n: store.flag_message(message_id(n % 50)),
        "store_turn_trace": lambda n: store.store_turn_trace(traces[n % MANY]),
        "get_turn_trace_by_id": lambda n: store.get_turn_trace_by_id(f"trace-{n % 200}"),
        "get_turn_traces_by_agent_id": lambda n: store.get_turn_traces_by_agent_id("agent"),
        "delete_message": lambda n: store.delete_message(f"nothing-{n}"),
        "store_messages, new": lambda n: store.store_messages(next(new_batches)),
        "store_messages": lambda n: store.store_messages(made),
        "store_turn": store_turn,
        "four_calls": four_calls,
    }


async def median(
    call: Callable[[int], Awaitable[object]], count: Iterator[int], batch: int
) -> float:
    times = []
    for n in itertools.islice(count, batch):
        started = perf_counter()
        await call(n)
        times.append(perf_counter() - started)
    return statistics.median(times)


class Call(Scenario):
    """One call after another."""

    def __init__(self, folder: Path, dsn: str, call: str, batch: int) -> None:
        super().__init__(folder)
        self._dsn, self._name, self._batch = dsn, call, batch
        self._count = itertools.count()

    async def prepare(self) -> None:
        self._store = await open_store(self._dsn)
        numbers = new_numbers()
        if self._name == "store_turn_trace":
            await self._store.store_messages(messages(numbers.start, numbers.stop, SPREAD))
        self._call = _calls(self._store, self._name, numbers)[self._name]

    async def measure(self) -> Figures:
        return {"seconds": await median(self._call, self._count, self._batch)}

    async def finish(self) -> None:
        await self._store.close()


class SyncCall(Call):
    """The same with the sync API."""

    async def prepare(self) -> None:
        from jazzmine.sync import MessageStore as SyncMessageStore

        config = {"storage": "postgres", "dsn": self._dsn, "schema": schema_of_this_process()}
        self._sync_store = SyncMessageStore.initialize(config)
        numbers = new_numbers()
        if self._name == "store_turn_trace":
            self._sync_store.store_messages(messages(numbers.start, numbers.stop, SPREAD))
        call = _calls(self._sync_store, self._name, numbers)[self._name]

        async def run(n: int) -> None:
            call(n)

        self._call = run

    async def finish(self) -> None:
        self._sync_store.close()


PLAIN = ("get_message_by_id", "get_immediate_context", "store_message")
"""The calls that are measured beside a user's own statement on plain psycopg."""


class Plain(Scenario):
    """What a user of psycopg would write for a call, column by column, on a pooled connection."""

    def __init__(self, folder: Path, dsn: str, call: str, batch: int) -> None:
        super().__init__(folder)
        self._dsn, self._name, self._batch = dsn, call, batch
        self._count = itertools.count()

    async def prepare(self) -> None:
        from psycopg.types.json import Jsonb
        from psycopg_pool import AsyncConnectionPool

        from jazzmine.records.messages import Message

        table = f"{schema_of_this_process()}.messages"
        columns = ", ".join(Message.model_fields)
        select = f"SELECT {columns} FROM {table} WHERE"
        numbers = new_numbers()
        made = [
            [
                Jsonb(value) if isinstance(value, (list, dict)) else value
                for value in one.model_dump(mode="json").values()
            ]
            for one in messages(numbers.start, numbers.stop, SPREAD)
        ]
        values = ", ".join(["%s"] * len(Message.model_fields))
        changes = ", ".join(f"{name} = excluded.{name}" for name in Message.model_fields)
        statements: dict[str, tuple[str, Callable[[int], list[Any]]]] = {
            "get_message_by_id": (f"{select} id = %s", lambda n: [message_id(n % STORED)]),
            "get_immediate_context": (
                f"{select} conversation_id = %s AND NOT is_flagged"
                " ORDER BY timestamp DESC, seq DESC LIMIT %s",
                lambda n: [conversation_id(n % SPREAD), 20],
            ),
            "store_message": (
                f"INSERT INTO {table} ({columns}) VALUES ({values})"
                f" ON CONFLICT (id) DO UPDATE SET {changes}",
                lambda n: made[n % MANY],
            ),
        }
        self._sql, self._parameters = statements[self._name]
        kwargs = {"autocommit": True, "prepare_threshold": 0}
        self._pool = AsyncConnectionPool(
            self._dsn, min_size=2, max_size=10, kwargs=kwargs, open=False
        )
        await self._pool.open(wait=True)

    async def _run(self, n: int) -> None:
        async with self._pool.connection() as connection:
            cursor = await connection.execute(self._sql.encode(), self._parameters(n), binary=True)
            if cursor.description:
                await cursor.fetchall()

    async def measure(self) -> Figures:
        return {"seconds": await median(self._run, self._count, self._batch)}

    async def finish(self) -> None:
        await self._pool.close()


class Concurrent(Scenario):
    """Concurrent tasks that store new messages; the time of one message."""

    def __init__(self, folder: Path, dsn: str, workers: int, each: int) -> None:
        super().__init__(folder)
        self._dsn, self._workers, self._count = dsn, workers, workers * each

    async def prepare(self) -> None:
        self._store = await open_store(self._dsn, pool_min=10, pool_max=10)
        for _ in range(2):
            await self.measure()

    async def _work(self, messages: list[Message]) -> None:
        for message in messages:
            await self._store.store_message(message)

    async def measure(self) -> Figures:
        new = new_messages(self._count)
        started = perf_counter()
        await asyncio.gather(*(self._work(new[n :: self._workers]) for n in range(self._workers)))
        return {"seconds": (perf_counter() - started) / self._count}

    async def finish(self) -> None:
        await self._store.close()


class Threads(Scenario):
    """The same with threads and the sync calls."""

    def __init__(self, folder: Path, dsn: str, workers: int, each: int) -> None:
        super().__init__(folder)
        self._dsn, self._workers, self._count = dsn, workers, workers * each

    def prepare(self) -> None:
        from jazzmine.sync import MessageStore as SyncMessageStore

        config = {"storage": "postgres", "dsn": self._dsn, "schema": schema_of_this_process()}
        self._store = SyncMessageStore.initialize({**config, "pool_min": 10, "pool_max": 10})
        for _ in range(2):
            self.measure()

    def _work(self, messages: list[Message]) -> None:
        for message in messages:
            self._store.store_message(message)

    def measure(self) -> Figures:
        new = new_messages(self._count)
        shares = [new[n :: self._workers] for n in range(self._workers)]
        threads = [threading.Thread(target=self._work, args=(share,)) for share in shares]
        started = perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"seconds": (perf_counter() - started) / self._count}

    def finish(self) -> None:
        self._store.close()
