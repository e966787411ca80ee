"""`copy`: every record of a store into another one, in order, and the proof that it is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NamedTuple

import typer

from jazzmine.cli.left_out import nothing_left_out
from jazzmine.cli.options import item_store, items_config, open_store, store_config
from jazzmine.cli.output import Refused, line, say, write
from jazzmine.cli.places import Items, Kind, Messages, Place, name_of, now_ms
from jazzmine.cli.progress import Counter, counting
from jazzmine.cli.records import Batch, Digest, Records, canonical, names
from jazzmine.errors import IntegrityError

__all__ = ["add_commands"]


def add_commands(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("copy")(copy)


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
            "--long-term", help="The items of the long-term memories at FROM and TO instead."
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
    config = items_config if long_term else store_config
    if config(source, "FROM") == config(target, "TO"):
        raise typer.BadParameter("FROM and TO are the same store")
    opened = _items if long_term else _messages
    with nothing_left_out(), opened(source, target) as (read, written):
        try:
            with counting() as counter:
                copied = _copy_all(read, written, merge, counter)
                verified = _verified(read, written, merge, counter)
        except KeyboardInterrupt:
            say("interrupted; the same command goes on where this one stopped")
            raise
        _report(copied, verified)


@contextmanager
def _messages(source: str, target: str) -> Iterator[tuple[Place, Place]]:
    with (
        open_store(source, name="FROM") as read,
        open_store(target, create=True) as written,
    ):
        yield Messages(read), Messages(written)


@contextmanager
def _items(source: str, target: str) -> Iterator[tuple[Place, Place]]:
    with (
        item_store(source, name="FROM") as read,
        item_store(target, create=True) as written,
    ):
        at = now_ms()
        yield Items(read, at), Items(written, at)


class _Copied(NamedTuple):
    """What a copy has brought of one kind.

    Attributes:
        digest: of all records of the source.
        kept: how many of them were in the target before.
    """

    digest: Digest
    kept: int


def _copy_all(source: Place, target: Place, merge: bool, counter: Counter) -> dict[Kind, _Copied]:
    kept = dict.fromkeys(source.kinds, 0) if merge else _compared(source, target, counter)
    copied = {}
    for kind in source.kinds:
        counter.begin(f"copying {kind}")
        try:
            digest = _copy_kind(source, target, kind, kept[kind], counter)
        except IntegrityError as error:
            raise Refused(
                f"{error}. If FROM was changed during the copy, give the same command again;"
                " otherwise store in FROM what is missing there, or delete the record"
            ) from error
        copied[kind] = _Copied(digest, kept[kind])
    return copied


def _compared(source: Place, target: Place, counter: Counter) -> dict[Kind, int]:
    """Return how many records of each kind the target holds.

    Raises:
        Refused: they are not the first of the source.
    """
    kept: dict[Kind, int] = dict.fromkeys(source.kinds, 0)
    for kind in source.kinds:
        counter.begin(f"comparing {kind}")
        wanted = iter(Records(source, kind))
        for record in Records(target, kind):
            first = next(wanted, None)
            if first is None or canonical(first) != canonical(record):
                raise Refused(
                    "TO is not empty, and not the beginning of a copy of FROM: of its"
                    f" {kind}, {name_of(record)} is another one, or differs. Nothing was copied."
                    " --merge adds to what it holds, and replaces records with the same id"
                )
            kept[kind] += 1
            counter.step()
    return kept


def _copy_kind(source: Place, target: Place, kind: Kind, kept: int, counter: Counter) -> Digest:
    """Copy the records of a kind after the first ones, and return the digest of all."""
    digest = Digest()
    with Batch(target, kind) as batch:
        for records in Records(source, kind).batches():
            new = records[max(0, kept - digest.count) :]
            batch.add(new, digest.add(records))
            counter.step(len(records))
    return digest


def _verified(source: Place, target: Place, merge: bool, counter: Counter) -> dict[Kind, Digest]:
    """Return the digest of each kind of record in the target, as it is read back."""
    digests = {}
    for kind in source.kinds:
        counter.begin(f"verifying {kind}")
        digest = Digest()
        batches = Records(target, kind).batches()
        if merge:
            batches = target.same(kind, Records(source, kind).batches())
        for records in batches:
            digest.add(records)
            counter.step(len(records))
        digests[kind] = digest
    return digests


def _report(copied: dict[Kind, _Copied], verified: dict[Kind, Digest]) -> None:
    """Print the counts and checksums of both sides.

    Raises:
        Refused: they differ.
    """
    differing = []
    for kind in copied:
        ours, theirs = copied[kind].digest, verified[kind]
        is_same = (ours.count, ours.checksum) == (theirs.count, theirs.checksum)
        if not is_same:
            differing.append(kind)
        write(
            f"{kind:<14}FROM {ours.count:>10,} {ours.checksum}   TO {theirs.count:>10,}"
            f" {theirs.checksum}   {'equal' if is_same else 'DIFFERENT'}"
        )
    kept = {kind: copied[kind].kept for kind in copied}
    if any(kept.values()):
        say(f"already there: {names(kept)}")
    if differing:
        raise Refused(f"the copy differs in its {', '.join(differing)}")
    write(line("verified: counts, contents and order are equal"))
