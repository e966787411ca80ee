"""The command that shows the items of a long-term memory."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from jazzmine.cli.options import JSONOption, LimitOption, UserOption
from jazzmine.cli.output import first_of, paged, print_json, print_table, when
from jazzmine.cli.program import command
from jazzmine.cli.stores import ITEMS, Stores, require


@command("items")
def list_items(
    stores: Stores,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORDS]", help="Words to search, the best first; all without any."),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", metavar="A/B", help="In this namespace, and below it.")
    ] = "",
    user: UserOption = None,
    limit: LimitOption = 50,
    as_json: JSONOption = False,
) -> None:
    """List the items of the long-term memory, in the order of their names, or those with words.

    Examples: `jazzmine items --namespace users/ada`, `jazzmine items penicillin`
    """
    prefix = tuple(namespace.split("/")) if namespace else ()
    with require(stores.items, ITEMS).open() as store:
        if words:
            query = " ".join(words)
            matches = store.search_items(query, prefix=prefix, user_id=user, limit=limit + 1)
            items = [each.item for each in matches]
        else:
            items = store.list_items(prefix, user_id=user, limit=limit + 1)
    items = first_of(items, limit)
    if as_json:
        for item in items:
            print_json(item.model_dump(mode="json"))
        return
    rows = (
        (
            when(item.updated_at),
            "/".join(item.namespace),
            item.key,
            item.user_id or "",
            json.dumps(item.value, ensure_ascii=False),
        )
        for item in items
    )
    columns = ["updated", "namespace", "key", "user", "value"]
    with paged():
        print_table(columns, rows, times=("updated",))
