"""The commands about words: `search` finds messages, `index` adds what finds them to a store."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from jazzmine.cli.options import (
    AgentOption,
    ConversationOption,
    JSONOption,
    LimitOption,
    SinceOption,
    UntilOption,
    UserOption,
)
from jazzmine.cli.output import counted, first_of, line, print_json, when, write
from jazzmine.cli.program import command
from jazzmine.cli.progress import counting
from jazzmine.cli.stores import Stores
from jazzmine.inspector.text import excerpt
from jazzmine.records.messages import FoundMessage
from jazzmine.search.analyser import analyser_for
from jazzmine.sync import MessageStore
from jazzmine.sync.maintenance import fill_search, make_search, search_state

# So many messages are indexed in a transaction: others that write wait for less than 0.1 s.
_AT_ONCE = 500


@command("search")
def search(
    stores: Stores,
    words: Annotated[
        list[str],
        typer.Argument(metavar="WORDS", help='Words, "a phrase", begin*; after --, -not.'),
    ],
    user: UserOption = None,
    agent: AgentOption = None,
    conversation: ConversationOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    newest: Annotated[
        bool, typer.Option("--newest", help="The newest that have all words, not the best.")
    ] = False,
    limit: LimitOption = 20,
    as_json: JSONOption = False,
) -> None:
    """Find messages by their words, the best first.

    Examples: `jazzmine search refund --user ada --since 7d`, `jazzmine search '"last tues*"'`
    """
    with stores.messages.open() as opened:
        matches = opened.search_messages(
            " ".join(words),
            user_id=user,
            agent_id=agent,
            conversation_id=conversation,
            since=since,
            until=until,
            order="newest" if newest else "relevance",
            limit=limit + 1,
        )
    matches = first_of(matches, limit)
    if as_json:
        for match in matches:
            message = match.message.model_dump(mode="json")
            print_json({"message": message, "score": match.score, "spans": match.spans})
    else:
        for match in matches:
            _show(match)
    if not matches:
        raise typer.Exit(1)


def _show(match: FoundMessage) -> None:
    message = match.message
    head = Text().append(message.role.value, style="bold")
    head.append(f"  {when(message.timestamp)}  {line(message.id)}", style="dim")
    head.append(f"  in {line(message.conversation_id)} of {line(message.user_id)}", style="dim")
    write("")
    write(head)
    text = Text()
    for part, is_word in excerpt(message.original_content, match.spans):
        text.append(part, style="bold yellow" if is_word else "")
    write(text)


@command("index")
def index(
    stores: Stores,
    language: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The language whose word forms are found, too; or `none`."
        ),
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Remove the index.")] = False,
) -> None:
    """Add the search index to a store, which `search` needs, or go on with it.

    It works beside live traffic, and may be interrupted and repeated. Programs of an older version
    refuse a store that has the index.

    Examples: `jazzmine index --language english`, `jazzmine index --off`
    """
    if off and language is not None:
        raise typer.BadParameter("give --language or --off, not both")
    with stores.messages.open() as opened:
        if off:
            make_search(opened, None)
            write("removed the search index")
            return
        state = search_state(opened)
        stored = "" if state is None else state.language
        chosen = stored if language is None else language.replace("none", "")
        analyser_for(chosen)  # is there such a language?
        make_search(opened, chosen)
        indexed = _fill(opened)
    stems = f"with the stems of {chosen}" if chosen else "without stems"
    write(f"the search index is complete, {stems}; added {counted(indexed, 'messages')}")


def _fill(store: MessageStore) -> int:
    indexed = 0
    with counting() as counter:
        counter.begin("indexing messages")
        while (count := fill_search(store, _AT_ONCE)) is not None:
            indexed += count
            counter.step(count)
    return indexed
