"""`doctor` checks a set-up, `migrate` brings it up to date."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from jazzmine._sync.working_memory.sqlite import MEMORY_TABLES
from jazzmine.backends.files import unwritable
from jazzmine.backends.postgres import schema
from jazzmine.backends.sqlite.doctor import check_database
from jazzmine.backends.sqlite.items import ITEM_TABLES
from jazzmine.backends.sqlite.rows import MESSAGE_TABLES
from jazzmine.cli.options import JSONOption
from jazzmine.cli.output import counted, error_text, line, print_json, say, shown, write
from jazzmine.cli.program import UNAVAILABLE, command
from jazzmine.cli.stores import ITEMS, MEMORY, MESSAGES, Named, Stores, unavailable
from jazzmine.config import MongoDBConfig, PostgresConfig, RedisConfig, SQLiteConfig
from jazzmine.errors import ConfigurationError, DecryptionError, JazzmineError, LockTimeoutError
from jazzmine.findings import Finding, failed, fine, warning
from jazzmine.sync.maintenance import vector_lengths

# By the kind of store, those of PostgreSQL and of SQLite.
_TABLES = {
    MESSAGES: (schema.MESSAGE_TABLES, MESSAGE_TABLES),
    MEMORY: (schema.MEMORY_TABLES, MEMORY_TABLES),
    ITEMS: (schema.ITEM_TABLES, ITEM_TABLES),
}
_WRITABLE = "chown or chmod u+w {}; or mount its file system writable"
_STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}


@command("migrate")
def migrate(
    stores: Stores,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
) -> None:
    """Create the tables and indexes of the stores, or bring them up to date.

    Programs do the same when they open a store, if their role has the rights.

    Example: `jazzmine migrate --dry-run`
    """
    steps = 0
    for named in stores.named:
        pending = named.pending()
        steps += len(pending)
        left: list[str] = []
        if not dry_run:
            with named.open(create=True):
                pass
            left = named.pending()
        for step in pending:
            if dry_run:
                write(line(f"would {step}"))
            else:  # a JSON file is written for what it holds
                write(line(f"with the first record: {step}" if step in left else f"done: {step}"))
    if not steps:
        say("everything is up to date")


@command("doctor")
def doctor(
    stores: Stores,
    as_json: JSONOption = False,
    mend: Annotated[
        bool,
        typer.Option(
            "--mend", help="Delete records in MongoDB whose conversation or message is not stored."
        ),
    ] = False,
) -> None:
    """Check the set-up of the stores, and say what to mend and how.

    Connections, versions, schema, indexes, rights, clocks, sizes of pools, persistence.

    Example: `jazzmine doctor --memory redis://localhost`
    """
    status = 0
    for named in stores.named:
        name = named.kind.name
        if not as_json:
            write(shown(name, "bold"))
        try:
            for finding in _check(named, mend):
                _print(name, finding, as_json)
                status = status or int(finding.level == "error")
        except (JazzmineError, OSError, ValueError) as error:
            _print(name, failed(error_text(error), _cure_of(error)), as_json)
            status = UNAVAILABLE if unavailable(error) else status or 1
    if status:
        raise typer.Exit(status)


def _cure_of(error: Exception) -> str:
    if isinstance(error, ConfigurationError):
        return "correct the address or the options"
    if isinstance(error, DecryptionError):
        return (
            "add the key that was used to JAZZMINE_ENCRYPTION; of plain values, jazzmine rekey with"
            " encryption_accepts_plain=true in the URL"
        )
    if isinstance(error, PermissionError):
        return _WRITABLE.format(error.filename)
    if isinstance(error, LockTimeoutError):
        return "end the program that holds the lock"
    if unavailable(error):
        return (
            "start the server, or correct the host, the port, the user or the password in the"
            " address; look for a firewall between"
        )
    return "correct the path, or mend or restore the file"


def _print(name: str, finding: Finding, as_json: bool) -> None:
    if as_json:
        print_json({"store": name, **finding._asdict()})
        return
    row = shown(f"  {finding.level:<8}", _STYLES[finding.level])
    row.append(line(finding.text), style="")
    write(row)
    if finding.cure:
        write(f"          cure: {line(finding.cure)}")


def _check(named: Named[Any], mend: bool) -> Iterator[Finding]:
    can_open = named.config.storage != "memory"
    for finding in _check_place(named, mend):
        can_open = can_open and (finding.level != "error" or isinstance(named.config, RedisConfig))
        yield finding
    if not can_open:
        return
    with named.open() as store:
        store.ping()
        if named.kind is MEMORY:
            yield fine(counted(store.active_count(), "working memories"))
        elif named.kind is MESSAGES:
            store.get_conversations(limit=1)
            yield fine("the conversations can be read")
        else:
            store.list_items(limit=1)
            yield fine("the items can be read")
            lengths = sorted(vector_lengths(store).items())
            if len(lengths) > 1:
                named_lengths = ", ".join(f"{count} of {length}" for length, count in lengths)
                yield warning(
                    f"items have vectors of different lengths ({named_lengths}): a search leaves"
                    " out those that another model has made",
                    "put these items again",
                )


def _check_place(named: Named[Any], mend: bool) -> Iterator[Finding]:
    """Yield what is found about the server or the file, before the store is opened."""
    config = named.config
    if isinstance(config, RedisConfig):
        from jazzmine.cli.doctor_redis import check_redis

        yield from check_redis(config)
    if isinstance(config, PostgresConfig):
        from jazzmine.cli.doctor_postgres import check_postgres

        yield from check_postgres(config, _TABLES[named.kind][0])
        return
    if named.kind is MESSAGES and isinstance(config, MongoDBConfig):
        from jazzmine.cli.doctor_mongodb import check_mongodb

        yield from check_mongodb(config, mend)
        return
    if pending := named.pending():
        cure = "correct the address, or `jazzmine migrate`"
        yield failed(f"to do: {', '.join(pending)}", cure)
    path = os.path.realpath(getattr(config, "path", ""))
    if os.path.isfile(path):
        yield from _check_file(path)
        if isinstance(config, SQLiteConfig) and not pending and not unwritable(path):
            yield from check_database(path, _TABLES[named.kind][1])


def _check_file(path: str) -> Iterator[Finding]:
    if forbidden := unwritable(path):
        yield failed(f"{forbidden} may not be written", _WRITABLE.format(forbidden))
    else:
        yield fine(f"{path} and its folder may be written")
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o007:
        yield warning(f"every user of this machine may read {path}", f"chmod 600 {path}")
