"""Export to JSON Lines or to a page, and import of JSON Lines."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import mkstemp
from typing import IO, Annotated, Any

import typer
from pydantic import ValidationError

from jazzmine.cli.options import UserOption
from jazzmine.cli.output import Refused, as_page, error_text, escaped, is_terminal, line, say
from jazzmine.cli.places import Batch, Items, Messages, Place, Sort, Writer, names, nothing_left_out
from jazzmine.cli.program import command
from jazzmine.cli.progress import counting
from jazzmine.cli.reading import conversation_of, show_whole
from jazzmine.cli.stores import ITEMS, MESSAGES, Stores
from jazzmine.records.base import Record, json_of, require_stored, snapshot
from jazzmine.records.item_rows import StoredItem
from jazzmine.records.messages import Conversation, Message
from jazzmine.records.traces import TurnTrace
from jazzmine.sync import MessageStore

# By the name of a record's kind in a line: {"message": {…}}.
_KINDS: dict[str, tuple[Sort, type[Record]]] = {
    "conversation": ("conversations", Conversation),
    "message": ("messages", Message),
    "trace": ("traces", TurnTrace),
    "item": ("items", StoredItem),
}
_NAMES: dict[Sort, str] = {kind: name for name, (kind, _) in _KINDS.items()}
_END = "end"

Write = Callable[[str], object]

# Export


@command("export")
def export(
    stores: Stores,
    conversation: Annotated[
        str | None,
        typer.Argument(metavar="[CONVERSATION]", help="One conversation instead of everything."),
    ] = None,
    user: UserOption = None,
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
            with _places(stores) as places:
                _write_lines(output, (batch for each in places for batch in _stream(each, user)))
            return
        with stores.messages.open() as opened:
            stored = conversation_of(opened, conversation)
            if html is None:
                _write_lines(output, _of_conversations(opened, [stored]))
                return
            title = line(stored.title) or "Conversation"
            page = as_page(title, lambda: show_whole(opened, stored, traces=True))
            with _written(html) as write:
                write(page)


@contextmanager
def _places(stores: Stores, *, create: bool = False) -> Iterator[list[Place]]:
    with ExitStack() as stack:
        places: list[Place] = []
        for named in stores.named:
            if named.kind is MESSAGES:
                places.append(Messages(stack.enter_context(named.open(create=create))))
            elif named.kind is ITEMS:
                places.append(Items(stack.enter_context(named.open(create=create))))
        yield places


def _stream(place: Place, user_id: str | None) -> Iterator[Batch]:
    """Yield all records of a place, or the user's conversations with all in them, and items."""
    if user_id is not None and isinstance(place, Messages):
        own = place.opened.get_conversations_by_user_id(user_id)
        yield from _of_conversations(place.opened, own[::-1])
        return
    for kind, records in place.batches():
        yield kind, [each for each in records if user_id is None or each.user_id == user_id]


def _of_conversations(store: MessageStore, conversations: list[Conversation]) -> Iterator[Batch]:
    yield "conversations", conversations
    for each in conversations:
        yield from (("messages", [message]) for message in store.iter_messages(each.id))
    for each in conversations:
        yield "traces", store.get_turn_traces_by_conversation_id(each.id)


def _is_complete(record: Record, exported: set[int]) -> bool:
    """Return whether all was exported that a record refers to; note that it is, too.

    A store that is written to has more when the next kind is read. Hashes are smaller than ids.
    """
    if isinstance(record, Message) and hash(("c", record.conversation_id)) not in exported:
        return False
    if isinstance(record, TurnTrace):
        return hash(("m", record.message_id)) in exported
    if isinstance(record, Conversation | Message):
        exported.add(hash(("c" if isinstance(record, Conversation) else "m", record.id)))
    return True


def _write_lines(path: Path | None, stream: Iterable[Batch]) -> None:
    counts: Tally[Sort] = Tally()
    exported: set[int] = set()
    with _written(path) as write, counting() as counter:
        for kind, records in counter.through("exporting", stream):
            for record in records:
                if not _is_complete(record, exported):
                    continue
                written = json_of(record.__pydantic_serializer__, record).decode()
                write(f'{{"{_NAMES[kind]}":{written}}}\n')
                counts[kind] += 1
        write(json.dumps({_END: counts}) + "\n")


@contextmanager
def _written(path: Path | None) -> Iterator[Write]:
    """Give what writes to a file, which appears when it is complete, or to standard output."""
    if path is None or str(path) == "-":
        sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
        write = sys.stdout.write
        yield (lambda text: write(escaped(text))) if is_terminal() else write
        return
    if path.exists() and not path.is_file():  # a pipe, or /dev/stdout
        with path.open("w", encoding="utf-8") as file:
            yield file.write
        return
    path = path.resolve()  # a symbolic link stays one
    # What people said to an agent is for the user's eyes, as the store's own file is: 0600.
    descriptor, part = mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            yield file.write
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


# Import


@command("import")
def import_lines(
    stores: Stores,
    file: Annotated[
        str, typer.Argument(metavar="[FILE]", help="JSON Lines; standard input by default.")
    ] = "-",
) -> None:
    """Store what `export` has written; the stores are created if there are none.

    What is stored already under the same id is replaced, so it may be repeated. Items keep their
    times and revisions.

    Example: `jazzmine import all.jsonl --store postgresql://localhost/agents`
    """
    ends: list[dict[str, int]] = []  # of each export, if one file has several
    with (
        _opened(file) as lines,
        _places(stores, create=True) as places,
        counting() as counter,
        Writer(places) as writer,
    ):
        counter.begin("importing records")
        for number, text in enumerate(lines, 1):
            if not text.strip():
                continue
            name, value = _read_line(number, text)
            if name == _END:
                ends.append(value)
                continue
            kind, record_type = _KINDS[name]
            if kind not in writer.place_of:
                option = "--items" if kind == "items" else "--store"
                raise Refused(f"it has {kind}: name the store for them in {option}")
            writer.write(kind, [_read_record(number, record_type, value)], len(text))
            counter.step()
    say(f"imported {names(writer.counts)}")
    end = sum(map(Tally, ends), Tally[str]())
    if ends and end != +writer.counts:
        raise Refused(f"the last line counts {names(end)}: lines are missing")
    if not ends:
        raise Refused("the last line of an export is missing: others may be, too")


def _opened(file: str) -> IO[bytes]:
    if file == "-":
        return sys.stdin.buffer
    return open(file, "rb")


def _read_line(number: int, text: bytes) -> tuple[str, Any]:
    try:
        value = json.loads(text)
    except UnicodeDecodeError:
        raise Refused(
            f"line {number} is not UTF-8, which `export` writes; a shell's `>` may have converted"
            " it, `export -o FILE` is never converted"
        ) from None
    except (ValueError, RecursionError) as error:
        raise Refused(f"line {number} is not JSON: {error}") from None
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name in _KINDS or (name == _END and _are_counts(inner)):
            return name, inner
    raise Refused(
        f'line {number} is not a line of an export: {{"conversation": …}}, {{"message": …}},'
        ' {"trace": …} or {"item": …}'
    )


def _are_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(type(count) is int for count in value.values())


def _read_record(number: int, record_type: type[Record], value: Any) -> Record:
    try:
        record = record_type.model_validate_json(json.dumps(value))
        require_stored(record)
        return snapshot(record, record_type).record
    except ValidationError as error:
        raise Refused(f"line {number}: {error_text(error)}") from None
