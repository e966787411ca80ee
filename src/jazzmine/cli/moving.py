"""Export to JSON Lines or to a page, and import of JSON Lines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby
from pathlib import Path
from tempfile import mkstemp
from typing import IO, Annotated, Any

import typer
from pydantic import ValidationError

from jazzmine.cli.left_out import nothing_left_out
from jazzmine.cli.options import (
    ItemsOption,
    StoreOption,
    given_url,
    is_named,
    item_store,
    items_url,
    message_store,
)
from jazzmine.cli.output import Refused, error_text, errors_of, say
from jazzmine.cli.page import conversation_page
from jazzmine.cli.places import Items, Kind, Messages, Place, now_ms
from jazzmine.cli.progress import Counter, counting
from jazzmine.cli.reading import conversation_of
from jazzmine.cli.records import Batch, Records, conversations_of, names
from jazzmine.records.base import Record, json_of, require_stored
from jazzmine.records.item_rows import StoredItem
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace
from jazzmine.sync import MessageStore

__all__ = ["add_commands"]

# By the name of a record's kind in a line: {"message": {…}}.
_KINDS: dict[str, tuple[Kind, type[Record]]] = {
    "conversation": ("conversations", Conversation),
    "message": ("messages", Message),
    "trace": ("traces", TurnTrace),
    "item": ("items", StoredItem),
}
_NAMES: dict[Kind, str] = {kind: name for name, (kind, _) in _KINDS.items()}
_END = "end"

Write = Callable[[str], object]


def add_commands(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("export")(export)
    app.command("import")(import_lines)


# Export


def export(
    context: typer.Context,
    conversation: Annotated[
        str | None,
        typer.Argument(metavar="[CONVERSATION]", help="One conversation instead of everything."),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="USER", help="Only the conversations and items of a user."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Instead of standard output."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="One page to read and print, of one conversation."
        ),
    ] = None,
    store: StoreOption = None,
    items: ItemsOption = None,
) -> None:
    """Write conversations, messages, traces and items as JSON Lines, or one conversation as a page.

    The order of records is that in which their ids were first stored; `import` keeps it. Items of a
    long-term memory are among them if one is named.

    Examples: `jazzmine export > all.jsonl`, `jazzmine export 6f1c… --html talk.html`
    """
    if html is not None and (conversation is None or output is not None):
        raise typer.BadParameter(
            "a page has one CONVERSATION, and no --output", param_hint="--html"
        )
    if user is not None and conversation is not None:
        raise typer.BadParameter("name a CONVERSATION or a user, not both", param_hint="--user")
    with nothing_left_out():
        if conversation is None:
            with _places(context, store, items) as places:
                _write_lines(output, _exported(places) if user is None else _of_user(places, user))
            return
        with message_store(context, store) as opened:
            conversation = conversation_of(opened, conversation).id
            if html is None:
                _write_lines(output, _exported_conversation(opened, conversation))
                return
            with _written(html) as write:
                for part in conversation_page(opened, conversation):
                    write(part)


@contextmanager
def _places(
    context: typer.Context, store: str | None, items: str | None, *, create: bool = False
) -> Iterator[list[Place]]:
    """Open the message store and the long-term memory that are named, for a block."""
    kept = items_url(context, items)
    with ExitStack() as opened:
        places: list[Place] = []
        if is_named(given_url(context, store), kept):
            messages = opened.enter_context(message_store(context, store, create=create))
            places.append(Messages(messages))
        if kept is not None:
            memory = opened.enter_context(item_store(kept, create=create))
            places.append(Items(memory, now_ms()))
        yield places


def _exported(places: Iterable[Place]) -> Iterator[tuple[Kind, Iterable[Record]]]:
    """Yield each kind with its records."""
    for place in places:
        for kind in place.kinds:
            yield kind, Records(place, kind)


def _exported_conversation(
    store: MessageStore, conversation_id: str
) -> Iterator[tuple[Kind, Iterable[Record]]]:
    yield "conversations", [conversation_of(store, conversation_id)]
    yield "messages", store.iter_messages(conversation_id)
    yield "traces", store.get_turn_traces_by_conversation_id(conversation_id)


def _of_user(places: Iterable[Place], user_id: str) -> Iterator[tuple[Kind, Iterable[Record]]]:
    """Yield each kind with the records of a user: the user's conversations with all in them."""
    for place in places:
        if isinstance(place, Items):
            yield "items", (item for item in Records(place, "items") if item.user_id == user_id)
        elif isinstance(place, Messages):
            store, ids = place.opened, list[str]()
            yield "conversations", _noted(conversations_of(store, user_id), ids)
            yield "messages", (m for owner in ids for m in store.iter_messages(owner))
            traces = store.get_turn_traces_by_conversation_id
            yield "traces", (trace for owner in ids for trace in traces(owner))


def _noted(conversations: Iterable[Conversation], ids: list[str]) -> Iterator[Conversation]:
    for conversation in conversations:
        ids.append(conversation.id)
        yield conversation


class _Referred:
    """What was exported already: a store that is written to has more when the next kind is read."""

    def __init__(self) -> None:
        # Hashes take less memory than ids.
        self._exported: set[int] = set()

    def has_what(self, record: Record) -> bool:
        """Return whether all was exported that a record refers to; note that it is, too."""
        if isinstance(record, Message):
            needed = hash(("conversation", record.conversation_id))
        elif isinstance(record, TurnTrace):
            needed = hash(("message", record.message_id))
        else:
            if isinstance(record, Conversation):
                self._exported.add(hash(("conversation", record.id)))
            return True
        if needed not in self._exported:
            return False
        if isinstance(record, Message):
            self._exported.add(hash(("message", record.id)))
        return True


def _write_lines(path: Path | None, exported: Iterable[tuple[Kind, Iterable[Record]]]) -> None:
    counts: dict[Kind, int] = {}
    referred = _Referred()
    with _written(path) as write, counting() as counter:
        for kind, records in exported:
            counts[kind] = 0
            counter.begin(f"exporting {kind}")
            for record in records:
                if not referred.has_what(record):
                    continue
                written = json_of(record.__pydantic_serializer__, record).decode()
                write(f'{{"{_NAMES[kind]}":{written}}}\n')
                counts[kind] += 1
                counter.step()
        write(json.dumps({_END: counts}) + "\n")


def _writer(file: IO[str], name: Path | str) -> Write:
    def write(text: str) -> None:
        with errors_of(name):
            file.write(text)

    return write


@contextmanager
def _written(path: Path | None) -> Iterator[Write]:
    """Give what writes to a file, which appears when it is complete, or to standard output."""
    if path is None or str(path) == "-":
        sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
        yield _writer(sys.stdout, "standard output")
        with errors_of("standard output"):
            sys.stdout.flush()
        return
    part = ""
    path = path.resolve()  # a symbolic link stays one
    with errors_of(path):
        if path.exists() and not path.is_file():  # a pipe, or /dev/stdout
            file = path.open("w", encoding="utf-8")
        else:
            # What people said to an agent is for the user's eyes, as the store's own file is: 0600.
            descriptor, part = mkstemp(dir=path.parent, prefix=f"{path.name}.")
            file = os.fdopen(descriptor, "w", encoding="utf-8")
    try:
        yield _writer(file, path)
        with errors_of(path):
            file.close()
            if part:
                os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            file.close()
        if part:
            os.unlink(part)
        raise


# Import


def import_lines(
    context: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="[FILE]", help="JSON Lines; standard input by default.")
    ] = "-",
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Accept lines without the last one that `export` writes."),
    ] = False,
    store: StoreOption = None,
    items: ItemsOption = None,
) -> None:
    """Store what `export` has written; the stores are created if there are none.

    What is stored already under the same id is replaced, so it may be repeated. Items keep their
    times and revisions.

    Example: `jazzmine import all.jsonl --store postgresql://localhost/agents`
    """
    with (
        _opened(file) as lines,
        _places(context, store, items, create=True) as places,
        counting() as counter,
    ):
        counts, end = _import(lines, places, counter)
    say(f"imported {names(counts)}")
    if end is not None and _without_zeros(end) != _without_zeros(counts):
        raise Refused(f"the last line speaks of {names(end)}: lines are missing")
    if end is None and not partial:
        raise Refused(
            "there is no last line as `export` writes it: lines may be missing (--partial)"
        )


def _opened(file: str) -> IO[bytes]:
    if file == "-":
        return sys.stdin.buffer
    with errors_of(file):
        return open(file, "rb")


def _without_zeros(counts: dict[Kind, int]) -> dict[Kind, int]:
    return {kind: count for kind, count in counts.items() if count}


def _import(
    lines: Iterable[bytes], places: Iterable[Place], counter: Counter
) -> tuple[dict[Kind, int], dict[Kind, int] | None]:
    place_of = {kind: place for place in places for kind in place.kinds}
    counts: dict[Kind, int] = dict.fromkeys(place_of, 0)
    end: dict[Any, int] | None = None
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    read = ((number, line, *_read_line(number, line)) for number, line in numbered)
    # Others may depend on the records of a kind, so these are stored before the next kind.
    for name, group in groupby(read, lambda numbered: numbered[2]):
        if name == _END:  # of each export, if one file has several
            for _, _, _, value in group:
                end = {kind: (end or {}).get(kind, 0) + count for kind, count in value.items()}
            continue
        kind, record_type = _KINDS[name]
        if kind not in place_of:
            option = "--items" if kind == "items" else "--store"
            raise Refused(f"there are {kind} in it: name where they go in {option}")
        counter.begin(f"importing {kind}")
        with Batch(place_of[kind], kind) as batch:
            for number, line, _, value in group:
                batch.add([_read_record(number, record_type, value)], len(line))
                counts[kind] += 1
                counter.step()
    return counts, end


def _read_line(number: int, line: bytes) -> tuple[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Refused(f"line {number} is not JSON: {error}") from None
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name in _KINDS or (name == _END and _are_counts(inner)):
            return name, inner
    raise Refused(
        f'line {number} is none that `export` writes: {{"conversation": …}}, {{"message": …}},'
        ' {"trace": …} or {"item": …}'
    )


def _are_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(type(count) is int for count in value.values())


def _read_record(number: int, record_type: type[Record], value: Any) -> Record:
    try:
        record = record_type.model_validate_json(json.dumps(value))
        require_stored(record)
    except ValidationError as error:
        raise Refused(f"line {number}: {error_text(error)}") from None
    return record
