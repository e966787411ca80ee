"""`copy --long-term`, `export --items` and `import --items`: items stay what they are."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jazzmine.cli.places import Items
from jazzmine.records.item_rows import StoredItem
from jazzmine.sync import LongTermMemoryStore
from jazzmine.sync.long_term_memory import MemoryItem, PutItem
from tests.behaviour.edge_values import TEXTS, VALUES
from tests.cli.program import all_records, objects, run
from tests.encryption.keys import FIRST, as_text

HOUR = 3_600_000
PLACES = ["sqlite", "new_postgres_url", "new_mongodb_url"]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def item(key: str, namespace: Sequence[str] = ("facts",), **fields: Any) -> MemoryItem:
    return MemoryItem(**{"namespace": tuple(namespace), "key": key, "value": {}, **fields})


def place_of(request: pytest.FixtureRequest, name: str, tmp_path: Path) -> str:
    if name == "sqlite":
        return f"sqlite:{tmp_path / 'items.db'}"
    return str(request.getfixturevalue(name))


def embed(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


def fill(url: str) -> None:
    """Store items of every sort, several times, so that their revisions are in no order."""
    later = now_ms() + HOUR
    with LongTermMemoryStore.initialize(url, embed=embed) as store:
        changes = [
            PutItem(item(f"k{n}", ("any", text[:9] or "-"), value={"v": value, "t": text}))
            for n, (text, value) in enumerate(zip(TEXTS, itertools.cycle(VALUES), strict=False))
        ]
        changes += [PutItem(item(f"{n:03}", ("many", str(n % 7)))) for n in range(120)]
        fields: dict[str, Any] = {"user_id": "ann", "source_message_id": "m1", "expires_at": later}
        changes.append(PutItem(item("file", value={"t": "é"}, data=bytes(range(256)), **fields)))
        changes += [PutItem(item("empty", data=b"")), PutItem(item("expired", expires_at=1))]
        store.apply(changes)
        store.apply(changes[::-3])
        store.delete(("many", "1"), "001")


def all_items(url: str) -> list[StoredItem]:
    """Return all that is stored of the items of a store, in their order."""
    with LongTermMemoryStore.initialize(url) as store:
        return [one for _, batch in Items(store).batches() for one in batch]


@pytest.fixture
def filled(tmp_path: Path) -> str:
    """The URL of a long-term memory that has items of every sort."""
    url = f"sqlite:{tmp_path / 'filled.db'}"
    fill(url)
    return url


# Round trips


@pytest.mark.parametrize(("first", "second"), list(itertools.pairwise([*PLACES, PLACES[0]])))
def test_items_are_copied_and_copied_again(
    request: pytest.FixtureRequest, filled: str, tmp_path: Path, first: str, second: str
) -> None:
    wanted, before = all_items(filled), filled
    assert len({one.revision for one in wanted}) == len(wanted) > 120
    assert any(one.vector for one in wanted)
    for name in (first, second):
        target = place_of(request, name, tmp_path)

        ran = run("copy", "--long-term", before, target)

        assert (ran.status, ran.output.count("equal")) == (0, 2), ran
        assert all_items(target) == wanted
        before = target


@pytest.mark.parametrize("name", PLACES)
def test_items_are_exported_and_imported(
    request: pytest.FixtureRequest, filled: str, tmp_path: Path, name: str
) -> None:
    target = place_of(request, name, tmp_path)
    exported = run("export", "--items", filled)

    imported = run("import", "--items", target, stdin=exported.output)

    assert (exported.status, imported.status) == (0, 0), imported
    assert all_items(target) == all_items(filled)
    assert objects(run("export", "--items", target).output) == objects(exported.output)
    assert run("import", "--items", target, stdin=exported.output).status == 0
    assert all_items(target) == all_items(filled)


def test_both_kinds_of_store_go_into_one_file(url: str, filled: str, tmp_path: Path) -> None:
    both = f"sqlite:{tmp_path / 'both.db'}"

    lines = run("export", "--store", url, "--items", filled).output
    ran = run("import", "--store", both, "--items", both, stdin=lines)

    assert ran.status == 0, ran
    names = [next(iter(line)) for line in objects(lines)]
    assert names[10:12] == ["trace", "item"]
    assert objects(lines)[-1]["end"]["items"] == len(all_items(filled))
    assert all_records(both) == all_records(url)
    assert all_items(both) == all_items(filled)


def test_a_conversation_alone_is_exported_without_items(url: str, filled: str) -> None:
    lines = objects(run("export", "c2", "--store", url, "--items", filled).output)

    assert [next(iter(line)) for line in lines] == ["conversation", "message", "trace", "end"]


def test_an_encrypted_store_gets_and_gives_items_in_their_words(
    filled: str, tmp_path: Path, new_postgres_url: str
) -> None:
    keys = {"JAZZMINE_ENCRYPTION": as_text(FIRST)}
    exported = run("export", "--items", filled)

    assert run("import", "--items", new_postgres_url, stdin=exported.output, env=keys).status == 0

    again = run("export", "--items", new_postgres_url, env=keys)
    assert objects(again.output) == objects(exported.output)
    assert run("export", "--items", new_postgres_url).status != 0


# Refusals


@pytest.mark.parametrize(
    ("exported", "target", "kind"),
    [("--items", "--store", "items"), ("--store", "--items", "conversations")],
)
def test_records_without_a_place_are_refused(
    url: str, filled: str, exported: str, target: str, kind: str
) -> None:
    urls = {"--store": url, "--items": filled}
    lines = run("export", exported, urls[exported]).output

    ran = run("import", target, urls[target], stdin=lines)

    assert ran.status == 1
    assert f"it has {kind}: name the store for them in {exported}" in ran.errors


@pytest.mark.parametrize(
    "command",
    [["copy", "{url}", "memory:"], *(f"{n} --store memory:".split() for n in ("migrate", "ls"))],
)
def test_a_store_that_ends_with_the_process_is_no_store_of_a_command(
    url: str, command: list[str]
) -> None:
    ran = run(*(each.format(url=url) for each in command))

    assert ran.status == 1
    assert "lost at its end" in ran.errors


def test_a_memory_that_holds_another_item_is_refused(filled: str, tmp_path: Path) -> None:
    target = f"sqlite:{tmp_path / 'target.db'}"
    with LongTermMemoryStore.initialize(target) as store:
        store.put(item("other", ("zzz",)))
        store.put(item("file", value={"old": 1}))

    ran = run("copy", "--long-term", filled, target)

    assert ran.status == 1
    assert "`import`" in ran.errors
    assert "'file' in ('facts',)" in ran.errors
    assert [one.key for one in all_items(target)] == ["file", "other"]
    assert run("copy", "--long-term", "--merge", filled, target).status == 2


def test_items_are_listed_searched_and_erased_where_only_they_are_named(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'items.db'}"
    with LongTermMemoryStore.initialize(url) as items:
        items.put(item("tea", value={"text": "likes green tea"}, user_id="ada"))
        items.put(item("cat", value={"text": "has a cat"}, user_id="bob"))
    env = {"JAZZMINE_LONG_TERM_MEMORY": f'"{url}"', "JAZZMINE_MESSAGE_STORE": " "}

    def keys(*arguments: str) -> list[str]:
        found = objects(run("items", "--json", *arguments, env=env).output)
        return sorted(each["key"] for each in found)

    assert keys() == ["cat", "tea"]
    assert keys("--user", "ada") == ["tea"]
    assert keys("green", "tea") == ["tea"]
    assert run("erase", "--user", "ada", "--yes", env=env).status == 0
    assert keys() == ["cat"]
