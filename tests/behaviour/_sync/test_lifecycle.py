"""A store is opened from a mapping, a URL or the environment, and closed for good."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jazzmine import ConfigurationError, InvalidAddressError, StoreClosedError
from jazzmine.sync.message_store import JSONMessageStore, MessageStore
from tests.behaviour.backends import Config
from tests.behaviour.calls import CALLS
from tests.behaviour.samples import conversation, full_message, full_trace, message
from tests.behaviour.support.sync_support import take

VARIABLE = "JAZZMINE_MESSAGE_STORE"
TIME_LIMITS = {
    "json": ["lock_timeout"],
    "sqlite": ["timeout"],
    "postgres": ["timeout", "migration_timeout"],
    "mongodb": ["timeout", "migration_timeout"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, without jazzmine's environment variables."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


@pytest.fixture
def store(config: Config) -> Iterator[MessageStore]:
    """An empty store for this test to close."""
    with MessageStore.initialize(config) as opened:
        yield opened


def title_in(config: Any) -> str:
    """Open a store, store a conversation in it, and return its title as read."""
    with MessageStore.initialize(config) as store:
        store.store_conversation(conversation(title="here"))
        found = store.get_conversation_by_id("c1")
        assert found is not None
        return found.title


# Closing


def test_a_store_may_be_closed_twice(store: MessageStore) -> None:
    store.close()
    store.close()


@pytest.mark.smoke
def test_a_closed_store_refuses_every_call(store: MessageStore) -> None:
    store.close()

    for call in CALLS.values():
        with pytest.raises(StoreClosedError, match="closed"):
            call(store)


def test_a_closed_store_refuses_to_iterate(store: MessageStore) -> None:
    store.close()

    with pytest.raises(StoreClosedError, match="closed"):
        store.iter_messages("c1")


def test_a_closed_store_refuses_to_be_entered(store: MessageStore) -> None:
    store.close()

    with pytest.raises(StoreClosedError):
        store.__enter__()


def test_a_closed_store_raises_a_runtime_error(store: MessageStore) -> None:
    store.close()

    with pytest.raises(RuntimeError, match="initialize"):
        store.ping()


def test_a_store_is_closed_at_the_end_of_its_block(config: Config) -> None:
    with MessageStore.initialize(config) as store:
        store.ping()

    with pytest.raises(StoreClosedError):
        store.ping()


def test_a_store_is_closed_when_its_block_raises(config: Config) -> None:
    store = MessageStore.initialize(config)

    with pytest.raises(LookupError, match="out"):
        fail_inside(store)

    with pytest.raises(StoreClosedError):
        store.ping()


def fail_inside(store: MessageStore) -> None:
    with store:
        raise LookupError("out")


@pytest.mark.parametrize("seconds", [100_000.0, 1e308])
def test_a_time_limit_of_any_length_is_accepted(seconds: float, config: Config) -> None:
    limits = TIME_LIMITS.get(str(config["storage"]), [])
    with MessageStore.initialize({**config, **dict.fromkeys(limits, seconds)}) as store:
        store.store_conversation(conversation("c1"))

        assert len(store.append_messages("c1", [message("m1")])) == 1


def test_entering_a_store_returns_the_store(config: Config) -> None:
    store = MessageStore.initialize(config)

    with store as entered:
        assert entered is store


def test_a_store_may_be_closed_within_its_block(config: Config) -> None:
    with MessageStore.initialize(config) as store:
        store.close()


@pytest.mark.smoke
def test_closing_one_store_leaves_another_on_the_same_data_open(
    chat: MessageStore, config: Config
) -> None:
    with MessageStore.initialize(config) as other:
        chat.close()

        other.store_message(message())

        assert other.get_message_by_id("m1") == message()


# Opening


@pytest.mark.smoke
def test_an_open_store_answers_a_ping(store: MessageStore) -> None:
    store.ping()


@pytest.mark.smoke
def test_a_store_opened_again_has_all_that_was_stored(config: Config) -> None:
    with MessageStore.initialize(config) as store:
        store.store_turn(
            conversation=conversation(metadata={"a": [1]}),
            messages=[full_message("m1"), message("m2")],
            trace=full_trace("m1"),
        )
        store.flag_message("m2")

    with MessageStore.initialize(config) as reopened:
        assert reopened.get_conversation_by_id("c1") == conversation(metadata={"a": [1]})
        assert reopened.get_messages_by_conversation_id("c1") == [
            full_message("m1"),
            message("m2", is_flagged=True),
        ]
        assert reopened.get_turn_trace_by_message_id("m1") == full_trace("m1")
        assert [m.id for m in take(reopened.iter_messages("c1"), 2)] == ["m1", "m2"]


def test_opening_does_not_change_the_configuration(config: Config) -> None:
    before = dict(config)

    with MessageStore.initialize(config):
        assert config == before


def test_a_mapping_without_a_storage_is_a_json_store(folder: Path) -> None:
    with MessageStore.initialize({"path": str(folder / "here.json")}) as store:
        assert isinstance(store, JSONMessageStore)
        store.store_conversation(conversation())

    assert (folder / "here.json").exists()


def test_a_storage_may_be_written_in_capitals(folder: Path) -> None:
    assert title_in({"storage": "JSON", "path": "here.json"}) == "here"


def test_a_path_may_be_a_path_object(folder: Path) -> None:
    title_in({"path": folder / "here.json"})

    assert (folder / "here.json").exists()


def test_a_url_names_a_file(folder: Path) -> None:
    title_in("json:some where.json")

    assert (folder / "some where.json").exists()


def test_a_url_names_an_absolute_file(folder: Path) -> None:
    title_in(f"json:{folder}/here.json")

    assert (folder / "here.json").exists()


def test_the_environment_names_a_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "json:from-environment.json")

    title_in(None)

    assert (folder / "from-environment.json").exists()
    assert not (folder / "messages.json").exists()


def test_a_configuration_comes_before_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "nonsense:")

    title_in("json:here.json")

    assert (folder / "here.json").exists()


def test_where_nothing_is_said_there_is_a_json_store_in_the_current_folder(
    folder: Path,
) -> None:
    with MessageStore.initialize() as store:
        store.store_conversation(conversation())

    assert (folder / "messages.json").exists()


def test_an_empty_variable_is_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")

    title_in(None)

    assert (folder / "messages.json").exists()


# Wrong configurations


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"storage": "jsom"}, r"unknown storage 'jsom'; did you mean 'json'\? allowed: json"),
        ({"storage": "tape"}, "unknown storage 'tape'; allowed: json"),
        ({"storage": 1}, "storage must be a string, not int"),
        ({"storage": None}, "storage must be a string, not NoneType"),
        ({"pth": "a.json"}, "unknown key 'pth' for storage 'json'; did you mean 'path'"),
        ({"pth": "a.json"}, "allowed: storage, .*path, fsync, lock_timeout, search"),
        ({"Path": "a.json"}, "unknown key 'Path' .* did you mean 'path'"),
        ({1: "a.json"}, "unknown key 1"),
        (
            {"dsn": "postgresql://u:secret@h/d"},
            "unknown key 'dsn' for storage 'json'; it is one of 'postgres'$",
        ),
        (
            {"storage": "mongodb", "path": "a"},
            "unknown key 'path' for storage 'mongodb'; it is one of 'json' and 'sqlite'$",
        ),
        ({"path": 1}, "path must be a string, not int"),
        ({"path": ""}, "path must not be empty"),
        ({"path": b"a.json"}, "path must be a string, not bytes"),
        ({"path": "a\0.json"}, r"path must not hold U\+0000"),
        ({"fsync": 1}, "fsync must be True or False, not int"),
        ({"fsync": "yes"}, "fsync must be True or False, not str"),
        ({"lock_timeout": "30"}, "lock_timeout must be a number of seconds, not str"),
        ({"lock_timeout": True}, "lock_timeout must be a number of seconds, not bool"),
        ({"lock_timeout": 0}, "lock_timeout must be more than 0 s, not 0"),
        ({"lock_timeout": -1.5}, "lock_timeout must be more than 0 s"),
        ({"lock_timeout": float("nan")}, "lock_timeout must be more than 0 s"),
        ({"lock_timeout": float("inf")}, "lock_timeout must be more than 0 s"),
        ("json:", "the path of the file is missing: write json:FILE"),
        ("json", "the path of the file is missing: write json:FILE"),
        ("sqlite", "the path of the file is missing: write sqlite:FILE"),
        (["json"], "config must be a mapping, a URL, a path or None, not list"),
        (b"json:a.json", "config must be a mapping, a URL, a path or None, not bytes"),
        (1, "config must be a mapping, a URL, a path or None, not int"),
    ],
)
def test_a_wrong_configuration_is_refused_with_the_accepted_one(
    folder: Path, wrong: Any, text: str
) -> None:
    with pytest.raises(ConfigurationError, match=text) as caught:
        MessageStore.initialize(wrong)

    assert isinstance(caught.value, ValueError)
    assert "secret" not in str(caught.value)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("ftp://user:secret@host/x", "names no known storage; allowed: json:, memory:"),
        ("jso:a", r"names no known storage; did you mean 'json:'\? allowed: json:"),
        ("sqllite:x.db", r"names no known storage; did you mean 'sqlite:'\? allowed: json:"),
        ("postgressql://u:secret@h/d", r"did you mean 'postgresql:'\? allowed: json:"),
        ("redis://u:secret@h/1", "redis: is no message store; allowed: json:"),
    ],
)
def test_a_url_of_no_known_storage_is_refused_without_repeating_it(
    folder: Path, url: str, text: str
) -> None:
    with pytest.raises(InvalidAddressError, match=text) as caught:
        MessageStore.initialize(url)

    assert isinstance(caught.value, ConfigurationError)
    assert isinstance(caught.value, ConnectionError)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("path", ["", ":a", "secret.txt"])
def test_a_path_that_does_not_say_what_is_stored_there_is_refused(
    folder: Path, path: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"\.json: json.*write json:PATH or") as caught:
        MessageStore.initialize(path)

    assert "secret" not in str(caught.value)


def test_a_wrong_url_in_the_environment_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "jso:messages.json")

    with pytest.raises(InvalidAddressError):
        MessageStore.initialize()
