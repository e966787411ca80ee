"""The commands that delete, which ask first."""

from __future__ import annotations

from pathlib import Path

import pytest

from jazzmine.sync import LongTermMemoryStore, MemoryItem, MessageStore, WorkingMemoryStore
from tests.behaviour.samples import NOW, conversation
from tests.cli.program import all_records, objects, run
from tests.encryption.keys import FIRST, keyring
from tests.servers import redis_configs


def ids(url: str) -> list[str]:
    return [one.id for one in all_records(url)["conversations"]]


# erase


def test_everything_of_a_user_is_erased_in_both_memories(url: str) -> None:
    with redis_configs.alone() as config:
        memory = str(config["url"])
        with WorkingMemoryStore.initialize(config) as store:
            store.get_or_create("c1", "u1", "a1")
            store.get_or_create("c3", "u2", "a1")
        options = ["--user", "u1", "--yes", "--json", "--store", url, "--memory", memory]
        ((first,), (again,)) = (objects(run("erase", *options).output) for _ in range(2))
        with WorkingMemoryStore.initialize(config) as store:
            left = store.get("c1"), store.get("c3")
    assert {name: first[name] for name in first if name != "erased_at"} == {
        "conversations": 2, "messages": 5, "traces": 3, "working_memories": 1
    }  # fmt: skip
    assert sum(again[name] for name in again if name != "erased_at") == 0
    assert ids(url) == ["c3"]
    assert left[0] is None
    assert left[1] is not None


def test_the_items_of_a_user_are_erased_too(url: str, tmp_path: Path) -> None:
    items = f"sqlite:{tmp_path / 'items.db'}"
    options = ["--user", "u1", "--yes", "--json", "--store", url, "--items", items]
    missing = run("erase", *options)
    with LongTermMemoryStore.initialize(items) as store:
        for key, user in (("a", "u1"), ("b", "u2")):
            store.put(MemoryItem(namespace=("n",), key=key, value={}, user_id=user))

    (found,) = objects(run("erase", *options).output)

    assert missing.status == 1
    assert "long-term memory is not there" in missing.errors
    assert found["items"] == 1
    with LongTermMemoryStore.initialize(items) as store:
        assert [item.key for item in store.list_items()] == ["b"]


def test_each_memory_that_is_not_named_is_said_to_keep_what_it_has(
    url: str, tmp_path: Path
) -> None:
    memory, items = f"sqlite:{tmp_path / 'memory.db'}", f"sqlite:{tmp_path / 'items.db'}"
    WorkingMemoryStore.initialize(memory).close()
    LongTermMemoryStore.initialize(items).close()
    hints = {
        "--memory": "no working memory is named (--memory): its records of the user stay\n",
        "--items": "no long-term memory is named (--items): its records of the user stay\n",
    }
    both = {"--memory": memory, "--items": items}
    for left_out in ([], ["--memory"], ["--items"], ["--memory", "--items"]):
        named = {option: both[option] for option in both if option not in left_out}
        options = [text for option in named.items() for text in option]
        ran = run("--store", url, *options, "erase", "--user", "u2", "--yes")
        assert ran.status == 0
        assert ran.errors == "".join(hints[option] for option in left_out)
        assert ("working memor" in ran.output) == ("--memory" in named)
        assert ("item" in ran.output) == ("--items" in named)


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
@pytest.mark.parametrize(
    "command", [["erase", "--user", "u1"], ["prune", "--before", "2025-01-01"]]
)
def test_any_answer_but_yes_deletes_nothing(url: str, command: list[str], answer: str) -> None:
    before = all_records(url)
    ran = run(*command, "--store", url, stdin=answer)
    assert ran.status == 1
    assert "Delete" in ran.errors
    assert all_records(url) == before


@pytest.mark.parametrize(
    "command", [["erase", "--user", "u1"], ["prune", "--before", "2025-01-01"]]
)
def test_yes_deletes(url: str, command: list[str]) -> None:
    assert run(*command, "--store", url, stdin="y\n").status == 0
    assert "c1" not in ids(url)


def test_a_user_has_to_be_named(url: str) -> None:
    assert run("erase", "--yes", "--store", url).status == 2


# rm


def test_a_conversation_is_removed_with_its_working_memory(url: str, tmp_path: Path) -> None:
    memory = f"sqlite:{tmp_path / 'memory.db'}"
    with WorkingMemoryStore.initialize(memory) as store:
        store.get_or_create("c1", "u1", "a1")
    stores = ["--store", url, "--memory", memory]

    refused = run("rm", "c1", *stores, stdin="n\n")
    assert refused.status == 1
    assert "of user 'u1'" in refused.errors
    assert "c1" in ids(url)
    assert run("rm", "c1", "--yes", *stores).output == "deleted conversation 'c1'\n"

    assert "c1" not in ids(url)
    with WorkingMemoryStore.initialize(memory) as store:
        assert store.get("c1") is None
    assert run("rm", "c1", "--yes", *stores).status == 1


def test_a_conversation_that_cannot_be_read_is_removed(tmp_path: Path) -> None:
    config = {"storage": "sqlite", "path": str(tmp_path / "agent.db"), "encryption": keyring(FIRST)}
    with MessageStore.initialize(config) as store:
        store.store_conversation(conversation())
    url = f"sqlite:{config['path']}"

    assert "'c1', which cannot be read?" in run("rm", "c1", "--store", url, stdin="n\n").errors
    assert run("rm", "c1", "--yes", "--store", url).status == 0
    assert ids(url) == []


# prune


@pytest.mark.parametrize(
    ("before", "left"),
    [
        (str(NOW), ["c1", "c3", "c2"]),
        (str(NOW + 1), ["c3"]),
        ("2023-11-14", ["c1", "c3", "c2"]),
        ("2023-11-15", []),
    ],
)
def test_old_conversations_are_pruned(url: str, before: str, left: list[str]) -> None:
    (found,) = objects(run("prune", "--before", before, "--yes", "--json", "--store", url).output)
    assert ids(url) == left
    assert found == {"conversations": 3 - len(left)}


def test_it_is_said_before_which_time_was_pruned(url: str) -> None:
    # A number of seconds is a time in January 1970.
    ran = run("prune", "--before", "1700000000", "--yes", "--store", url)
    assert ran.output == "pruned 0 conversations last touched before 1970-01-20 16:13:20Z\n"


@pytest.mark.parametrize("before", ["2999-01-01", str(10**15)])
def test_a_time_in_the_future_prunes_nothing(url: str, before: str) -> None:
    stored = all_records(url)
    ran = run("prune", "--before", before, "--yes", "--store", url)
    assert ran.status == 2
    assert "in the future" in ran.errors
    assert all_records(url) == stored


def test_a_date_that_cannot_be_read_is_a_wrong_usage(url: str) -> None:
    assert run("prune", "--before", "last year", "--yes", "--store", url).status == 2
