"""Print the work of the agents in the last day as tables.

JAZZMINE_MESSAGE_STORE=postgresql://… python examples/worker.py --slow 2000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from jazzmine.sync import MessageStore, TraceFilter, TurnTrace, UsageSummary


def usage_table(title: str, usages: list[UsageSummary]) -> Table:
    """Return a table of the usage, with one line for each group."""
    table = Table("", title=title)
    for heading in ("turns", "failed", "tokens", "mean ms", "p95 ms", "max ms"):
        table.add_column(heading, justify="right")
    for usage in usages:
        table.add_row(
            usage.key,
            f"{usage.turns:,}",
            f"{usage.failed_turns:,}",
            f"{usage.total_tokens:,}",
            f"{usage.mean_latency_ms:,.0f}",
            f"{usage.p95_latency_ms:,}",
            f"{usage.max_latency_ms:,}",
        )
    return table


def all_traces(store: MessageStore, where: TraceFilter) -> Iterator[TurnTrace]:
    """Yield every trace that matches a filter, newest first, page by page."""
    page = store.find_turn_traces(where, limit=500)
    while page:
        yield from page
        page = store.find_turn_traces(where, limit=500, after=page[-1].id)


def slow_table(traces: Iterator[TurnTrace], slow: int) -> Table:
    """Return a table of the slow turns and their calls."""
    table = Table("conversation", "turn", "ms", "tools", "errors", title=f"Over {slow:,} ms")
    for trace in traces:
        table.add_row(
            trace.conversation_id,
            str(trace.turn_number),
            f"{trace.total_latency_ms:,}",
            ", ".join(tool.tool_name for tool in trace.tool_traces),
            ", ".join(trace.errors),
            style="red",
        )
    return table


def main() -> None:
    """Read the traces, and print the tables."""
    parser = argparse.ArgumentParser(description="Shows usage, and slow turns.")
    parser.add_argument("--hours", type=float, default=24, help="how far to look back")
    parser.add_argument("--slow", type=int, default=1000, help="flag turns of so many ms")
    options = parser.parse_args()

    since = int((time.time() - options.hours * 3600) * 1000)
    recent = TraceFilter(started_from=since)
    slow = TraceFilter(started_from=since, min_latency_ms=options.slow)
    console = Console()
    with MessageStore.initialize() as store:
        console.print(usage_table("By model", store.summarize_usage(recent, by="model")))
        console.print(usage_table("By agent", store.summarize_usage(recent, by="agent")))
        console.print(slow_table(all_traces(store, slow), options.slow))


if __name__ == "__main__":
    main()
