"""What a program meets first: imports, the version, and the names of fields."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import jazzmine
from jazzmine import Message, StoreUnavailableError, sync
from tests.servers.programs import run_python

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


@pytest.mark.parametrize("api", ["jazzmine.core", "jazzmine.sync"])
@pytest.mark.parametrize(
    ("name", "home"), [("ConflictError", "jazzmine"), ("Keyring", "jazzmine.encryption")]
)
def test_a_name_that_is_imported_from_an_api_is_said_to_be_elsewhere(
    api: str, name: str, home: str
) -> None:
    with pytest.raises(ImportError, match=f"from {home} import {name}$"):
        exec(f"from {api} import {name}")


def test_the_package_says_its_version() -> None:
    assert jazzmine.__version__ == version("jazzmine")
    assert "__version__" not in getattr(jazzmine, "__all__")  # noqa: B009 - made at run time


def test_a_driver_that_is_too_old_is_named_with_the_version_that_is_needed(tmp_path: Path) -> None:
    old = tmp_path / "redis-4.6.0.dist-info" / "METADATA"
    old.parent.mkdir()
    old.write_text("Metadata-Version: 2.1\nName: redis\nVersion: 4.6.0\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from jazzmine.sync import WorkingMemoryStore\n"
        "WorkingMemoryStore.initialize('redis://h')\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "too old: redis 4.6.0, where" in ran.stderr


def test_the_package_can_be_run() -> None:
    command = [sys.executable, "-m", "jazzmine", "--version"]
    ran = run_python(command, capture_output=True, text=True, timeout=240)
    assert ran.stdout == f"jazzmine {jazzmine.__version__}\n", ran.stderr


@pytest.mark.parametrize(
    ("opened", "url", "driver"),
    [
        (sync.MessageStore, f"postgresql://{NOBODY}/d?timeout=1", "psycopg"),
        (sync.MessageStore, f"mongodb://{NOBODY}/d?timeout=1", "pymongo"),
        (sync.WorkingMemoryStore, f"postgresql://{NOBODY}/d?timeout=1", "psycopg"),
        (sync.WorkingMemoryStore, f"redis://{NOBODY}?timeout=1", "redis"),
        (sync.LongTermMemoryStore, f"mongodb://{NOBODY}/d?timeout=1", "pymongo"),
    ],
)
def test_a_store_whose_server_is_down_names_the_program_that_says_more(
    opened: Any, url: str, driver: str
) -> None:
    pytest.importorskip(driver)
    with pytest.raises(StoreUnavailableError, match=f"{NOBODY}.*; `jazzmine doctor` says more$"):
        opened.initialize(url)


def test_without_a_driver_the_extra_to_install_is_named() -> None:
    program = (
        "import sys; sys.modules.update(psycopg=None, pymongo=None, redis=None)\n"
        "from jazzmine.sync import MessageStore, WorkingMemoryStore\n"
        "for kind, url in ((MessageStore, 'postgresql://h/d'), (MessageStore, 'mongodb://h/d'),"
        " (WorkingMemoryStore, 'redis://h')):\n"
        "    try: kind.initialize(url)\n"
        "    except ImportError as error: print(error)\n"
    )
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for line, extra in zip(said, ("postgres", "mongodb", "redis"), strict=True):
        assert f"pip install 'jazzmine[{extra}]>=2.0'" in line


def refused(**fields: object) -> str:
    given = {"conversation_id": "c1", "user_id": "ada", "role": "user", **fields}
    with pytest.raises(ValidationError) as raised:
        Message(**given)  # type: ignore[arg-type]
    return str(raised.value)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("content", "original_content"), ("message", "original_content"), ("timestmp", "timestamp")],
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


def test_an_error_lists_no_default_that_was_not_made_because_of_it() -> None:
    text = refused(original_content=3)

    assert text.startswith("1 validation error for Message\noriginal_content\n")
