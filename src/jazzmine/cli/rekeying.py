"""`rekey`: encrypt all that encrypted stores have with the first key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import typer

from jazzmine.cli.options import (
    ItemsOption,
    JSONOption,
    MemoryOption,
    StoreOption,
    given_url,
    is_named,
    item_store,
    items_url,
    memory_store,
    memory_url,
    message_store,
)
from jazzmine.cli.output import Refused, counted, line, print_json, say, write
from jazzmine.cli.progress import Counter as Progress
from jazzmine.cli.progress import counting
from jazzmine.findings import Finding, failed, fine, warning
from jazzmine.sync.maintenance import AnyStore, iter_keys, keyring_of_store, purge

__all__ = ["add_commands", "check_keys"]

_NAMES = {"states": "working memories", "vectors": "vectors of items"}


def add_commands(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("rekey")(rekey)


def rekey(
    context: typer.Context,
    as_json: JSONOption = False,
    store: StoreOption = None,
    memory: MemoryOption = None,
    items: ItemsOption = None,
) -> None:
    """Encrypt with the first key of JAZZMINE_ENCRYPTION what another key has encrypted.

    It works beside live traffic, and may be interrupted and repeated. What is not encrypted at all
    is encrypted if the store accepts it (`?encryption_accepts_plain=true` in its URL). Give all
    programs the new key first, or they would not read what it encrypts.

    Example: `JAZZMINE_ENCRYPTION=k2:…,k1:… jazzmine rekey`
    """
    url, shared = given_url(context, store), memory_url(context, memory)
    kept = items_url(context, items)
    refused = 0
    with counting() as counter:
        if is_named(url, shared or kept):
            with message_store(context, store) as opened:
                refused += _rekey(opened, as_json, counter)
        if shared is not None:
            with memory_store(context, memory) as other:
                refused += _rekey(other, as_json, counter)
        if kept is not None:
            with item_store(kept) as third:
                while third.prune_expired():
                    pass  # what has expired cannot be read, but its text is there
                refused += _rekey(third, as_json, counter)
    if refused:
        raise Refused(f"not encrypted, for the reasons above: {counted(refused, 'values')}")


def _rekey(store: AnyStore, as_json: bool, counter: Progress) -> int:
    """Encrypt what a store has with its first key; return how much was refused."""
    keyring = keyring_of_store(store)
    if keyring is None:
        raise Refused("there are no keys: set JAZZMINE_ENCRYPTION, the new key first")
    counts: dict[str, Counter[str | None]] = {}
    refused: Counter[str] = Counter()
    for batch in iter_keys(store, rekeys=True):
        if batch.kind not in counts:
            counter.begin(f"encrypting {_named(batch.kind)}")
        counts.setdefault(batch.kind, Counter()).update(batch.counts)
        refused[batch.kind] += len(batch.refused)
        counter.step(batch.counts.total())
        for reason in batch.refused:
            say(line(reason))
    purge(store)
    for kind, by_key in counts.items():
        before = by_key.pop(keyring.first_id, 0)
        encrypted = by_key.total() - refused[kind]
        if as_json:
            print_json(
                {"kind": kind, "encrypted": encrypted, "before": before, "refused": refused[kind]}
            )
        else:
            write(
                f"{_named(kind)}: {encrypted:,} encrypted with {keyring.first_id!r},"
                f" {before:,} were before"
            )
    return refused.total()


def check_keys(store: AnyStore) -> Iterator[Finding]:
    """Yield by which keys the values of an encrypted store are encrypted."""
    keyring = keyring_of_store(store)
    if keyring is None:
        return
    counts: dict[str, Counter[str | None]] = {}
    unopened: dict[str, list[str]] = {}
    for batch in iter_keys(store, rekeys=False):
        counts.setdefault(batch.kind, Counter()).update(batch.counts)
        unopened.setdefault(batch.kind, []).extend(batch.refused)
    for kind, by_key in counts.items():
        if reasons := unopened[kind]:
            yield failed(
                f"{_named(kind)}: {len(reasons):,} do not open, the first of them because"
                f" {reasons[0]}",
                "look whether the key is the one that was used, or restore a backup",
            )
        for key_id, count in by_key.items():
            what = f"{_named(kind)}: {count:,}"
            if key_id is None:
                yield warning(
                    f"{what} are not encrypted",
                    "jazzmine rekey, with encryption_accepts_plain=true in the URL",
                )
            elif key_id not in keyring.ids:
                yield failed(
                    f"{what} encrypted with the key {key_id!r}, which the keyring does not have",
                    "add that key to JAZZMINE_ENCRYPTION",
                )
            elif key_id != keyring.first_id:
                yield warning(
                    f"{what} encrypted with {key_id!r}, and not with the first key",
                    "jazzmine rekey",
                )
            else:
                yield fine(f"{what} encrypted with {key_id!r}")


def _named(kind: str) -> str:
    return _NAMES.get(kind, kind)
