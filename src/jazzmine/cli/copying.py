"""`copy`: every record of a store into another one, in order, and the proof that it is there."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from jazzmine.cli.output import Refused, say, write
from jazzmine.cli.places import (
    Digest,
    Items,
    Messages,
    Place,
    Sort,
    Writer,
    canonical,
    name_of,
    names,
    nothing_left_out,
)
from jazzmine.cli.program import command
from jazzmine.cli.progress import Counter, counting
from jazzmine.cli.stores import ITEMS, MESSAGES, Kind, Named
from jazzmine.errors import IntegrityError

# How many records of each kind were there before, and the digests of both sides.
_Copied: TypeAlias = tuple[dict[Sort, int], dict[Sort, Digest], dict[Sort, Digest]]


@command("copy")
def copy(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="The URL of the store to copy; it is not changed.")
    ],
    target: Annotated[
        str,
        typer.Argument(metavar="TO", help="The URL of the copy; it is created if there is none."),
    ],
    merge: Annotated[
        bool,
        typer.Option(
            "--merge", help="Add to what TO holds already; a record with the same id is replaced."
        ),
    ] = False,
    long_term: Annotated[
        bool,
        typer.Option(
            "--long-term", help="Copy the items of the long-term memories at FROM and TO."
        ),
    ] = False,
) -> None:
    """Copy all conversations, messages and traces to another store, and verify the copy.

    The order of records with equal times stays, and so do the revisions of items. An interrupted
    copy goes on where it stopped when the same command is given again. TO must be empty, or hold
    the beginning of the copy. Nothing should write to either of them meanwhile.

    A URL without a password takes it from the environment (PGPASSWORD) or a file (~/.pgpass).

    Example: `jazzmine copy json:messages.json 'postgresql://localhost/agents?schema=chat'`
    """
    kind: Kind[Any] = ITEMS if long_term else MESSAGES
    if merge and long_term:
        raise typer.BadParameter("`export` and `import` add items to those of another store")
    read, written = Named(kind, source, "FROM"), Named(kind, target, "TO")
    if read.config == written.config:
        raise typer.BadParameter("FROM and TO are the same store")
    place = Items if long_term else Messages
    with (
        nothing_left_out(),
        read.open() as from_store,
        written.open(create=True) as to_store,
    ):
        try:
            with counting() as counter:
                present, ours, theirs = _copy(place(from_store), place(to_store), merge, counter)
        except KeyboardInterrupt:
            say("interrupted; the same command goes on where this one stopped")
            raise
        for each, digest in ours.items():
            pair = str(digest), str(theirs[each])
            equal = "equal" if pair[0] == pair[1] else "DIFFERENT"
            write(f"{each:<14}FROM {pair[0]}   TO {pair[1]}   {equal}")
        if any(present.values()):
            say(f"already there: {names(present)}")
        if different := [each for each in ours if str(ours[each]) != str(theirs[each])]:
            raise Refused(f"the copy differs in its {', '.join(different)}")
        write("verified: counts, contents and order are equal")


def _copy(source: Place, target: Place, merge: bool, counter: Counter) -> _Copied:
    present = dict.fromkeys(source.kinds, 0) if merge else _compared(source, target, counter)
    ours, theirs = ({each: Digest() for each in source.kinds} for _ in range(2))
    try:
        with Writer([target]) as writer:
            for kind, records in counter.through("copying", source.batches()):
                new = records[max(0, present[kind] - ours[kind].count) :]
                writer.write(kind, new, ours[kind].add(records))
    except IntegrityError as error:
        raise Refused(
            f"{error}. If FROM was changed during the copy, give the same command again; otherwise"
            " FROM lacks a record, or TO has another one with this id: store or delete it"
        ) from error
    stream = target.batches()
    if merge:
        assert isinstance(target, Messages)
        stream = ((kind, target.same(kind, records)) for kind, records in source.batches())
    for kind, records in counter.through("verifying", stream):
        theirs[kind].add(records)
    return present, ours, theirs


def _compared(source: Place, target: Place, counter: Counter) -> dict[Sort, int]:
    """Return how many records the target holds; `Refused` if they are not the source's first."""
    present: dict[Sort, int] = dict.fromkeys(source.kinds, 0)
    expected = ((kind, record) for kind, records in source.batches() for record in records)
    for kind, records in counter.through("comparing", target.batches()):
        for record in records:
            # Of the source's kinds before this one the target may lack the end.
            first = next((pair for pair in expected if pair[0] == kind), None)
            if first is None or canonical(first[1]) != canonical(record):
                raise Refused(
                    "TO is not empty, and not the beginning of a copy of FROM: of its"
                    f" {kind}, {name_of(record)} is another one, or differs. Nothing was copied."
                    " --merge adds to what it holds, and replaces records with the same id (as"
                    " `export` and `import` do with items)"
                )
        present[kind] += len(records)
    return present
