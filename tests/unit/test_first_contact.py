"""What a program meets first: imports, the version, and the names of fields."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest
from pydantic import ValidationError

import jazzmine
from jazzmine import Message, StoreUnavailableError, core, sync

# Where no server listens.
NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize("name", ["MessageStore", "WorkingMemoryStore", "SQLiteMessageStore"])
def test_a_store_that_is_imported_from_the_package_is_said_to_be_in_both_apis(name: str) -> None:
    with pytest.raises(ImportError) as raised:
        exec(f"from jazzmine import {name}")

    assert str(raised.value) == (
        f"{name} is in the async and in the sync API: from jazzmine.core import {name}"
        f" or from jazzmine.sync import {name}"
    )
    assert hasattr(import_module("jazzmine.core"), name)
    assert name not in dir(jazzmine)


def test_a_name_that_is_nowhere_is_an_attribute_error() -> None:
    assert not hasattr(jazzmine, "Massage")
    with pytest.raises(ImportError, match="cannot import name 'Massage'"):
        exec("from jazzmine import Massage")


def test_the_package_says_its_version() -> None:
    assert jazzmine.__version__ == version("jazzmine")
    assert "__version__" not in getattr(jazzmine, "__all__")  # noqa: B009 - made at run time


def test_the_package_can_be_run() -> None:
    command = [sys.executable, "-m", "jazzmine", "--version"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ran.stdout == f"jazzmine {jazzmine.__version__}\n", ran.stderr


@pytest.mark.parametrize("url", [f"postgresql://{NOBODY}/d", f"mongodb://{NOBODY}/d"])
async def test_a_store_whose_server_is_down_names_the_program_that_says_more(url: str) -> None:
    pytest.importorskip("psycopg" if url.startswith("postgresql") else "pymongo")
    for opened in (
        await failure(core.MessageStore.initialize(f"{url}?timeout=1")),
        await failure(core.LongTermMemoryStore.initialize(f"{url}?timeout=1")),
        await failure(asyncio.to_thread(sync.MessageStore.initialize, f"{url}?timeout=1")),
    ):
        assert NOBODY in opened
        assert opened.endswith("; `jazzmine doctor` says more")


@pytest.mark.parametrize("url", [f"postgresql://{NOBODY}/d", f"redis://{NOBODY}"])
async def test_a_memory_whose_server_is_down_names_the_program_that_says_more(url: str) -> None:
    pytest.importorskip("psycopg" if url.startswith("postgresql") else "redis")
    for opened in (
        await failure(core.WorkingMemoryStore.initialize(f"{url}?timeout=1")),
        await failure(asyncio.to_thread(sync.WorkingMemoryStore.initialize, f"{url}?timeout=1")),
    ):
        assert NOBODY in opened
        assert opened.endswith("; `jazzmine doctor` says more")


async def failure(opening: Awaitable[object]) -> str:
    with pytest.raises(StoreUnavailableError) as raised:
        await opening
    return str(raised.value)


@pytest.mark.parametrize("url", ["json:{}/missing/m.json", "sqlite:{}/missing/m.db"])
def test_a_missing_folder_is_named(url: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no such folder") as raised:
        sync.MessageStore.initialize(url.format(tmp_path))

    assert raised.value.filename == f"{tmp_path}/missing"
    assert not any(tmp_path.iterdir())


def refused(**fields: object) -> str:
    given = {"conversation_id": "c1", "user_id": "ada", "role": "user", **fields}
    with pytest.raises(ValidationError) as raised:
        Message(**given)  # type: ignore[arg-type]
    return str(raised.value)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("content", "original_content"), ("text", "original_content"), ("timestmp", "timestamp")],
)
def test_a_wrong_name_of_a_field_is_answered_with_the_right_one(wrong: str, meant: str) -> None:
    text = refused(**{wrong: "x"})

    assert f"\n{wrong}\n  Extra inputs are not permitted; did you mean '{meant}'?" in text


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("human", "user"), ("AI", "assistant"), ("assitant", "assistant"), ("function", "tool")],
)
def test_a_wrong_role_is_answered_with_the_right_one(wrong: str, meant: str) -> None:
    assert f"or 'tool'; did you mean '{meant}'?" in refused(role=wrong, original_content="x")


@pytest.mark.parametrize("fields", [{"zzzz": 1}, {"role": "zzzz"}, {"role": 3}])
def test_what_is_like_nothing_is_refused_without_a_hint(fields: dict[str, object]) -> None:
    assert "did you mean" not in refused(original_content="x", **fields)


def test_an_error_lists_no_default_that_was_not_made_because_of_it() -> None:
    text = refused(original_content=3)

    assert text.startswith("1 validation error for Message\noriginal_content\n")
