"""The commands that show turns, and sums of their usage."""

from __future__ import annotations

from typing import Annotated

import typer

from jazzmine.cli.options import AfterOption, FullOption, JSONOption, LimitOption
from jazzmine.cli.output import Refused, first_of, line, print_table, when, write
from jazzmine.cli.program import command
from jazzmine.cli.reading import only_one
from jazzmine.cli.rendering import print_list, print_records, show_calls, trace_line
from jazzmine.cli.stores import Stores
from jazzmine.records.timeline import at_least, money, problems, unreported
from jazzmine.records.traces import TurnTrace
from jazzmine.records.usage import TraceFilter, UsageKey, UsageSummary
from jazzmine.sync import MessageStore

# The beginning of an id is looked for in so many of the newest traces.
_AT_ONCE = 1_000


@command("traces")
def list_traces(
    stores: Stores,
    where: TraceFilter,
    turn: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="A trace, or its message: this turn with its calls."),
    ] = None,
    limit: LimitOption = 50,
    after: AfterOption = None,
    full: FullOption = False,
    as_json: JSONOption = False,
) -> None:
    """List the traces of turns, the latest first; all filters must hold. Or show one of them.

    Examples: `jazzmine traces --agent desk --errors --since 7d`, `jazzmine traces 7e02…`
    """
    if turn is not None:
        if after is not None or where != TraceFilter():
            raise typer.BadParameter("give an ID, or filters")
        with stores.messages.open() as opened:
            _show_turn(trace_of(opened, turn), full, as_json)
        return
    with stores.messages.open() as opened:
        listed = opened.find_turn_traces(where, limit=limit + 1, after=after)
    columns = ["started", "trace", "conversation", "turn", "ms", "tokens", "intent", "error"]
    print_list(
        first_of(listed, limit),
        columns,
        _row,
        as_json=as_json,
        numbers=("turn", "ms", "tokens"),
    )


def trace_of(store: MessageStore, given: str) -> TurnTrace:
    """Return a trace, by its id, that of its message, or a part of its id as in `only_one`."""
    trace = store.get_turn_trace_by_id(given) or store.get_turn_trace_by_message_id(given)
    if trace is None:
        trace = only_one(given, store.find_turn_traces(TraceFilter(), limit=_AT_ONCE))
    if trace is None:
        raise Refused(f"there is no trace {given!r}, and none of a message {given!r}")
    return trace


def _show_turn(trace: TurnTrace, full: bool, as_json: bool) -> None:
    if as_json:
        print_records([trace])
        return
    write(line(f"{when(trace.started_at_ms)}  {trace.id}  {trace.conversation_id}"))
    write(line(trace_line(trace, full)))
    show_calls(trace, full)


def _row(trace: TurnTrace) -> tuple[object, ...]:
    return (
        when(trace.started_at_ms),
        trace.id,
        trace.conversation_id,
        trace.turn_number or "",
        trace.total_latency_ms,
        at_least(str(trace.total_tokens), trace.total_tokens, unreported(trace)),
        trace.detected_intent,
        next(iter(problems(trace)), ""),
    )


def _tokens(tokens: int, group: UsageSummary) -> str:
    return at_least(str(tokens), tokens, group.unreported_calls)


@command("usage")
def usage(
    stores: Stores,
    where: TraceFilter,
    by: Annotated[UsageKey, typer.Option("--by", help="The groups.")] = "agent",
    as_json: JSONOption = False,
) -> None:
    """Sum up the usage of turns: tokens, costs, latencies, energy; most tokens first.

    Days are those of UTC. `≥` precedes a sum that some calls of models did not report, or have
    no price for, and `–` for one that none reported. Copies that a fork made, and answers that were
    deleted or generated anew, are not counted.

    `g CO2` is what the agent noted of the energy of its calls (`total_co2_g` of its traces); it is
    shown where any was noted.

    Example: `jazzmine usage --by model --since 30d`
    """
    with stores.messages.open() as opened:
        sums = opened.summarize_usage(where, by=by)
    if as_json:
        print_records(sums)
        return
    columns: dict[str, list[object]] = {}
    if by != "model":  # whose sums are those of calls
        columns["turns"] = [group.turns for group in sums]
        columns["failed"] = [group.failed_turns for group in sums]
    columns |= {
        "prompt": [_tokens(group.prompt_tokens, group) for group in sums],
        "completion": [_tokens(group.completion_tokens, group) for group in sums],
        "tokens": [_tokens(group.total_tokens, group) for group in sums],
        "mean ms": [round(group.mean_latency_ms) for group in sums],
        "p95 ms": [group.p95_latency_ms for group in sums],
    }
    if any(group.total_co2_g for group in sums):
        columns["g CO2"] = [f"{group.total_co2_g:.4g}" for group in sums]
    if any(group.cached_prompt_tokens for group in sums):
        columns["cached"] = [group.cached_prompt_tokens for group in sums]
    if any(group.cost_usd for group in sums):
        columns["USD"] = [
            at_least(money(group.cost_usd), group.cost_usd, group.unpriced_calls) for group in sums
        ]
    rows = zip((group.key for group in sums), *columns.values(), strict=True)
    print_table([by, *columns], rows, numbers=columns)
