"""What does a call cost on PostgreSQL, beside the predecessor's on asyncpg and plain psycopg?

A measurement is the median of a batch of calls, of the async and of the sync API. Messages and
turns are new ones at first. Beside plain psycopg, three calls are the statement that its user would
write, column by column, on a pooled autocommit connection; it makes no records of the rows. The
server does not sync, so that the figures are the calls' and not the disk's.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.frame.lab import Lab, Side
from benchmarks.frame.postgres import PLAIN, Call, Plain, SyncCall, database, filled
from benchmarks.frame.results import Row, at_least_as_fast, within

FASTER = dict.fromkeys(
    ("store_message", "store_turn_trace", "flag_message", "get_immediate_context"), 1.3
)
CALLS = (
    "store_conversation",
    "get_conversation_by_id",
    "store_message",
    "get_message_by_id",
    "get_immediate_context",
    "flag_message",
    "store_turn_trace",
    "get_turn_trace_by_id",
    "get_turn_traces_by_agent_id",
    "delete_message",
)


def answer(lab: Lab) -> Iterator[Row]:
    with database(fsync=False) as dsn:
        filled(lab, dsn)
        for call in CALLS:
            yield from _call(lab, dsn, call)
        options: dict[str, object] = {"dsn": dsn, "call": "store_turn", "batch": 20}
        other = Side(Call, {**options, "call": "four_calls"}, predecessor=True)
        found = lab.race(Side(Call, options), other, rounds=25)
        yield Row("store_turn", found["seconds"], at_least_as_fast(2.5), beside="its four calls")
        options = {"dsn": dsn, "call": "store_messages", "batch": 1}
        found = lab.race(Side(Call, options), Side(Call, options, predecessor=True), rounds=9)
        yield Row("store_messages, 2,000", found["seconds"], at_least_as_fast(1))
        options = {"dsn": dsn, "call": "store_messages, new", "batch": 1}
        found = lab.race(Side(Call, options), Side(Call, options, predecessor=True), rounds=25)
        yield Row("store_messages, 1,000 new", found["seconds"], at_least_as_fast(1))


def _call(lab: Lab, dsn: str, call: str) -> Iterator[Row]:
    options: dict[str, object] = {"dsn": dsn, "call": call, "batch": 20}
    found = lab.race(Side(Call, options), Side(Call, options, predecessor=True), rounds=25)
    yield Row(call, found["seconds"], at_least_as_fast(FASTER.get(call, 1)))
    if lab.self_check:
        return
    found = lab.race(Side(SyncCall, options), Side(Call, options, predecessor=True), rounds=25)
    yield Row(f"  {call}, sync", found["seconds"], at_least_as_fast(FASTER.get(call, 1)))
    if call in PLAIN:
        found = lab.race(Side(Call, options), Side(Plain, options), rounds=25)
        yield Row(f"  {call}", found["seconds"], within(1.25), beside="plain psycopg")
