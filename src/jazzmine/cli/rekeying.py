"""`rekey`: encrypt all that encrypted stores have with the first key."""

from __future__ import annotations

from collections import Counter

from jazzmine.cli.options import JSONOption
from jazzmine.cli.output import Refused, counted, line, print_json, say, write
from jazzmine.cli.program import command
from jazzmine.cli.progress import Counter as Progress
from jazzmine.cli.progress import counting
from jazzmine.cli.stores import Stores
from jazzmine.encryption import Keyring
from jazzmine.sync import LongTermMemoryStore
from jazzmine.sync.maintenance import AnyStore, purge, rekeyed

# With the wrong keys, all values of a kind are refused.
_MOST_NAMED = 20
_NAMES = {"states": "working memories", "vectors": "vectors of items"}


@command("rekey")
def rekey(stores: Stores, as_json: JSONOption = False) -> None:
    """Encrypt values of other keys with the first key of JAZZMINE_ENCRYPTION.

    It works beside live traffic, and may be interrupted and repeated. Plain values are encrypted,
    too, if the store accepts them (`?encryption_accepts_plain=true` in its URL). Give all programs
    the new key first, or they would not read what it encrypts.

    Example: `JAZZMINE_ENCRYPTION=k2:…,k1:… jazzmine rekey`
    """
    refused = 0
    with counting() as counter:
        for named in stores.named:
            with named.open() as store:
                while isinstance(store, LongTermMemoryStore) and store.prune_expired():
                    pass  # what has expired cannot be read, but its text is there
                refused += _rekey(store, named.config.keyring, as_json, counter)
    if refused:
        raise Refused(f"not encrypted, for the reasons above: {counted(refused, 'values')}")


def _rekey(store: AnyStore, keyring: Keyring | None, as_json: bool, counter: Progress) -> int:
    """Encrypt what a store has with its first key; return how much was refused."""
    if keyring is None:
        raise Refused("there are no keys: set JAZZMINE_ENCRYPTION, the new key first")
    counts: dict[str, Counter[str]] = {}
    for batch in rekeyed(store):
        if batch.kind not in counts:
            counter.begin(f"encrypting {_named(batch.kind)}")
        before, refused = batch.before, len(batch.refused)
        sums = {"encrypted": batch.total - before - refused, "before": before, "refused": refused}
        of_kind = counts.setdefault(batch.kind, Counter())
        for reason in batch.refused[: max(0, _MOST_NAMED - of_kind["refused"])]:
            say(line(reason))
        of_kind.update(sums)
        counter.step(batch.total)
    purge(store)
    for kind, sums in counts.items():
        if as_json:
            print_json({"kind": kind, **sums})
        else:
            write(
                f"{_named(kind)}: {sums['encrypted']:,} encrypted with {keyring.first_id!r},"
                f" {sums['before']:,} were before"
            )
    return sum(sums["refused"] for sums in counts.values())


def _named(kind: str) -> str:
    return _NAMES.get(kind, kind)
