"""`doctor` and `migrate`: what is wrong with a set-up, and bringing it up to date."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from jazzmine._sync.factory import (
    new_long_term_memory,
    new_message_store,
    new_working_memory,
)
from jazzmine.cli.options import (
    ItemsOption,
    JSONOption,
    MemoryOption,
    StoreOption,
    given_url,
    is_named,
    item_store,
    items_config,
    items_url,
    memory_config,
    memory_url,
    open_memory,
    pending_of,
    refusals,
    store_config,
    unavailable,
)
from jazzmine.cli.output import counted, error_text, line, print_json, say, shown, write
from jazzmine.cli.rekeying import check_keys
from jazzmine.cli.searching import check_search
from jazzmine.config import BackendConfig, MongoDBConfig, PostgresConfig, RedisConfig
from jazzmine.errors import ConfigurationError, JazzmineError
from jazzmine.findings import Finding, failed, fine, warning
from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore
from jazzmine.sync.maintenance import pending_changes

__all__ = ["add_commands"]

_STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}
_UNAVAILABLE = 3


def add_commands(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("migrate")(migrate)
    app.command("doctor")(doctor)


def migrate(
    context: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    store: StoreOption = None,
    memory: MemoryOption = None,
    items: ItemsOption = None,
) -> None:
    """Create the tables and indexes of the stores, or bring them up to date.

    Programs do the same when they open a store, if their role may.

    Example: `jazzmine migrate --dry-run`
    """
    url, memory = given_url(context, store), memory_url(context, memory)
    items = items_url(context, items)
    steps = 0
    if is_named(url, memory or items):
        config = store_config(url)
        steps += _migrate(lambda: new_message_store(config), dry_run)
    if memory is not None:
        of_memory = memory_config(memory)
        steps += _migrate(lambda: new_working_memory(of_memory), dry_run)
    if items is not None:
        of_items = items_config(items)
        steps += _migrate(lambda: new_long_term_memory(of_items), dry_run)
    if not steps:
        say("everything is up to date")


def _migrate(
    make: Callable[[], MessageStore | WorkingMemoryStore | LongTermMemoryStore], dry_run: bool
) -> int:
    pending = pending_of(make())
    left: list[str] = []
    if not dry_run:
        with refusals(), make().open():
            pass
        left = pending_of(make())
    for step in pending:
        if dry_run:
            write(line(f"would {step}"))
        else:  # a JSON file is written for what it holds
            write(line(f"with the first record: {step}" if step in left else f"done: {step}"))
    return len(pending)


def doctor(
    context: typer.Context,
    as_json: JSONOption = False,
    mend: Annotated[
        bool,
        typer.Option(
            "--mend", help="Delete records in MongoDB whose conversation or message is not stored."
        ),
    ] = False,
    store: StoreOption = None,
    memory: MemoryOption = None,
    items: ItemsOption = None,
) -> None:
    """Check the set-up of the stores, and say what to mend and how.

    Connections, versions, schema, indexes, rights, clocks, sizes of pools, persistence.

    Example: `jazzmine doctor --memory redis://localhost`
    """
    url, memory = given_url(context, store), memory_url(context, memory)
    items = items_url(context, items)
    checks: list[tuple[str, Iterator[Finding]]] = []
    if is_named(url, memory or items):
        checks.append(("message store", _check(store_config(url), mend)))
    if memory is not None:
        checks.append(("working memory", _check_memory(memory_config(memory))))
    if items is not None:
        checks.append(("long-term memory", _check_items(items)))
    worst, status = 0, 0
    for name, findings in checks:
        if not as_json:
            write(shown(name, "bold"))
        for finding, is_unavailable in _all(findings):
            _print(name, finding, as_json)
            worst = max(worst, finding.level == "error")
            status = _UNAVAILABLE if is_unavailable else status
    if status or worst:
        raise typer.Exit(status or worst)


def _all(findings: Iterator[Finding]) -> Iterator[tuple[Finding, bool]]:
    """Yield findings, and as the last one the error that ended them; True if it was the network."""
    try:
        for finding in findings:
            yield finding, False
    except ConfigurationError as error:
        yield failed(error_text(error), "correct the address or the options"), False
    except (JazzmineError, OSError, ValueError) as error:
        text = error_text(error)
        cure = _cure_of(text) if unavailable(error) else "mend or restore the file"
        yield failed(text, cure), unavailable(error)


def _cure_of(text: str) -> str:
    text = text.lower()
    if any(word in text for word in ("password", "authentication", "wrongpass", "noauth")):
        return "correct the user or the password in the address (or in PGPASSWORD, ~/.pgpass)"
    if "does not exist" in text:
        return "correct the name in the address, or create it"
    if "too many" in text or "remaining connection slots" in text:
        return "close other programs, or raise the server's limit of connections"
    return "start the server, or correct host and port in the address; look for a firewall between"


def _print(name: str, finding: Finding, as_json: bool) -> None:
    if as_json:
        print_json({"store": name, **finding._asdict()})
        return
    row = shown(f"  {finding.level:<8}", _STYLES[finding.level])
    row.append(line(finding.text), style="")
    write(row)
    if finding.cure:
        write(f"          cure: {line(finding.cure)}")


def _check(config: BackendConfig, mend: bool) -> Iterator[Finding]:
    can_open = True
    for finding in _check_place(config, mend):
        can_open = can_open and finding.level != "error"
        yield finding
    if can_open:
        with new_message_store(config).open() as store:
            yield from check_search(store)
            yield from check_keys(store)


def _check_place(config: BackendConfig, mend: bool) -> Iterator[Finding]:
    if isinstance(config, PostgresConfig):
        from jazzmine.cli.doctor_postgres import check_postgres

        yield from check_postgres(config)
    elif isinstance(config, MongoDBConfig):
        from jazzmine.cli.doctor_mongodb import check_mongodb

        yield from check_mongodb(config, mend)
    else:
        yield from _check_file(config)


def _check_memory(config: BackendConfig) -> Iterator[Finding]:
    if isinstance(config, RedisConfig):
        from jazzmine.cli.doctor_redis import check_redis

        yield from check_redis(config)
    pending = pending_of(new_working_memory(config))
    for step in pending:
        yield failed(f"to do: {step}", "correct the address, or `jazzmine migrate`")
    if pending:
        return
    with open_memory(config) as store:
        store.ping()
        yield fine(counted(store.active_count(), "working memories"))
        yield from check_keys(store)


def _check_items(url: str) -> Iterator[Finding]:
    config = items_config(url)
    pending = pending_of(new_long_term_memory(config))
    can_open = not pending
    for step in pending:
        yield failed(f"to do: {step}", "correct the address, or `jazzmine migrate`")
    if can_open and isinstance(config, PostgresConfig):
        from jazzmine.cli.doctor_postgres import check_item_sequences

        for finding in check_item_sequences(config):
            can_open = False
            yield finding
    if can_open:
        with item_store(url) as store:
            store.ping()
            yield fine("the items can be read")
            yield from check_keys(store)


def _check_file(config: BackendConfig) -> Iterator[Finding]:
    """Yield what is found about a store in a file."""
    path = os.path.realpath(str(getattr(config, "path", "")))
    pending = pending_changes(new_message_store(config))
    if not os.path.exists(path):
        yield failed(f"there is no file {path}", "correct the path; the first write creates it")
        return
    for step in pending:
        yield failed(f"to do: {step}", "jazzmine migrate")
    folder = os.path.dirname(path)
    if os.access(path, os.W_OK) and os.access(folder, os.W_OK):
        yield fine(f"{path} and its folder may be written")
    else:
        yield failed(f"{path} or its folder may not be written", f"chown or chmod u+w {folder}")
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o007:
        yield warning(f"every user of this machine may read {path}", f"chmod 600 {path}")
    if getattr(config, "fsync", True) is False or getattr(config, "synchronous", "") == "normal":
        yield warning(
            "a write does not wait for the disk: a power cut may lose the last ones",
            "leave out fsync=false, or synchronous=normal",
        )
    if pending:
        return
    with new_message_store(config).open() as store:
        store.ping()
    yield fine("the file can be read")
