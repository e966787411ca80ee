"""What a store's class and its configuration refuse before anything is opened."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from jazzmine import ConfigurationError, InvalidAddressError
from jazzmine.config import (
    BackendConfig,
    JSONStoreConfig,
    MemoryMessagesConfig,
    MemoryStoreConfig,
    MongoDBConfig,
    PostgresMemoryConfig,
    RedisConfig,
    SQLiteMemoryConfig,
    message_store_config,
    working_memory_config,
)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"storage": "jsom"}, r"unknown storage 'jsom'; did you mean 'json'\? allowed: json"),
        ({"storage": "tape"}, "unknown storage 'tape'; allowed: json"),
        ({"storage": 1}, "storage must be a string, not int"),
        ({"storage": None}, "storage must be a string, not NoneType"),
        (
            {"pth": "a.json"},
            "unknown key 'pth' for storage 'json', the default; did you mean 'path'",
        ),
        ({"pth": "a.json"}, "allowed: storage, .*path, fsync, lock_timeout, search"),
        ({"Path": "a.json"}, "unknown key 'Path' .* did you mean 'path'"),
        ({1: "a.json"}, "unknown key 1"),
        (
            {"dsn": "postgresql://u:secret@h/d"},
            "unknown key 'dsn' for storage 'json', the default; it is one of 'postgres'$",
        ),
        (
            {"storage": "mongodb", "path": "a"},
            "unknown key 'path' for storage 'mongodb'; it is one of 'json' and 'sqlite'$",
        ),
        ({"path": "agent.DB"}, "means storage 'sqlite', and the default is 'json'"),
        ({"path": Path("agent.db")}, "means storage 'sqlite', and the default is 'json'"),
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
def test_a_wrong_configuration_is_refused_with_the_accepted_one(wrong: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as caught:
        message_store_config(wrong)

    assert isinstance(caught.value, ValueError)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"storage": "memry"}, r"'memry'; did you mean 'memory'\?"),
        ({"lock_timout": 1}, r"'lock_timout'.* did you mean 'lock_timeout'\? allowed: storage,"),
        ({"storage": 7}, "storage must be a string"),
        ({"ttl_seconds": "15"}, "ttl_seconds"),
        (7, "mapping, a URL, a path or None"),
        ("amqp://ann:secret@secret", "memory:"),
        ("mongodb://u:secret@h/db", "^mongodb: is no working memory; allowed: memory:"),
    ],
)
def test_a_wrong_configuration_of_a_working_memory_is_refused(wrong: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as caught:
        working_memory_config(wrong)

    assert "secret" not in str(caught.value)


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
def test_a_url_of_no_known_storage_is_refused_without_repeating_it(url: str, text: str) -> None:
    with pytest.raises(InvalidAddressError, match=text) as caught:
        message_store_config(url)

    assert isinstance(caught.value, ConfigurationError)
    assert isinstance(caught.value, ConnectionError)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "valid",
    [
        JSONStoreConfig(),
        MemoryMessagesConfig(),
        MongoDBConfig(uri="mongodb://h"),
        PostgresMemoryConfig(dsn="postgresql://h"),
        RedisConfig(url="redis://h"),
        SQLiteMemoryConfig(),
    ],
    ids=lambda config: type(config).__name__,
)
def test_each_option_has_a_check(valid: BackendConfig) -> None:
    for option in fields(valid):
        if option.name != "pool":  # the driver's, which looks at it when it is opened
            with pytest.raises((ConfigurationError, TypeError), match=option.name):
                type(valid)(**{**_options(valid), option.name: object()})


def _options(config: BackendConfig) -> dict[str, Any]:
    return {option.name: getattr(config, option.name) for option in fields(config)}


def test_a_configuration_comes_before_the_environment_and_an_empty_variable_is_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("JAZZMINE_MESSAGE_STORE", "JAZZMINE_WORKING_MEMORY"):
        monkeypatch.setenv(variable, "nonsense:")
    assert message_store_config("json:a.json") == JSONStoreConfig(path="a.json")
    assert working_memory_config("memory:") == MemoryStoreConfig()
    for variable in ("JAZZMINE_MESSAGE_STORE", "JAZZMINE_WORKING_MEMORY"):
        monkeypatch.setenv(variable, "")
    assert message_store_config(None) == JSONStoreConfig()
    assert working_memory_config(None) == MemoryStoreConfig()


@pytest.mark.parametrize("space", ["\n", " ", "\t\r\n", "\ufeff", '"', "'"])
@pytest.mark.parametrize(
    ("address", "name", "expected"),
    [
        ("sqlite:/x/agent.db", "path", "/x/agent.db"),
        ("/x/agent.json", "path", "/x/agent.json"),
        ({"storage": "json", "path": "/x/agent.json"}, "path", "/x/agent.json"),
        ({"storage": "postgres", "dsn": "postgresql://h/d"}, "dsn", "postgresql://h/d"),
        ("mongodb://h/d", "uri", "mongodb://h/d"),
        ({"storage": "postgres", "dsn": "postgresql://h/d", "schema": "chat"}, "schema", "chat"),
        ({"storage": "mongodb", "uri": "mongodb://h", "db": "agents"}, "db", "agents"),
    ],
)
def test_white_space_and_quotes_round_an_address_are_taken_off(
    address: Any, name: str, expected: str, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(address, str):
        monkeypatch.setenv("JAZZMINE_MESSAGE_STORE", f"{space}{address}{space}")
        configs = [message_store_config(f"{space}{address}{space}"), message_store_config(None)]
    else:
        configs = [message_store_config({**address, name: f"{space}{address[name]}{space}"})]

    assert [getattr(config, name) for config in configs] == [expected] * len(configs)
