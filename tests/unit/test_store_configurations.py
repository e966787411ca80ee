"""What a store's class and its configuration refuse before anything is opened."""

from __future__ import annotations

from collections.abc import Callable
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
    PostgresConfig,
    PostgresMemoryConfig,
    RedisConfig,
    SQLiteMemoryConfig,
    message_store_config,
    working_memory_config,
)
from jazzmine.sync import MessageStore, WorkingMemoryStore


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
        ({"path": ":memory:"}, "path is that of a file; .* take memory:"),
        ({"storage": "sqlite", "synchronous": "off"}, 'synchronous must be "full" or "normal"'),
        ({"storage": "mongodb", "uri": "mongodb://h", "db": "a b"}, "db must be the name of"),
        ({"storage": "mongodb", "uri": "mongodb://h", "db": "é" * 32}, "db .* at most 63 bytes"),
        ({"storage": "postgres"}, "storage 'postgres' needs the key 'dsn'"),
        ({"storage": "postgres", "dsn": "d", "pool_min": 3, "pool_max": 2}, "pool_max 1 or"),
        ("postgresql:h/secret", "the URL of a PostgreSQL database begins postgresql://"),
        ("sqlite:///agent.db", "the path comes directly after sqlite:"),
        ("memory:a", "nothing may follow memory: in the URL"),
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


# Options in a URL


def test_options_are_taken_out_of_the_url_of_a_database() -> None:
    url = "postgresql://u@h/db?schema=agents&sslmode=require&pool_max=5&prepare=false&timeout=2.5"
    assert message_store_config(url) == PostgresConfig(
        dsn="postgresql://u@h/db?sslmode=require",
        schema="agents",
        pool_max=5,
        prepare=False,
        timeout=2.5,
    )


def test_options_of_the_driver_stay_in_the_url() -> None:
    url = "mongodb://h/chat?replicaSet=rs0&w=1"
    assert message_store_config(url) == MongoDBConfig(uri=url, db="chat")
    for redis in ("rediss://user:pw@h:7000/3", "unix:///run/redis.sock?db=1", "redis://[::1]"):
        assert working_memory_config(redis) == RedisConfig(redis)


@pytest.mark.parametrize("wrong", ["fsnc", "lock_timeut", "serch"])
def test_a_mistyped_option_of_a_file_is_no_part_of_its_path(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=f"unknown option '{wrong}'.* did you mean"):
        message_store_config(f"json:a.json?{wrong}=3")


def test_a_file_may_have_options() -> None:
    assert message_store_config("json:a b.json?fsync=no&lock_timeout=3") == JSONStoreConfig(
        path="a b.json", fsync=False, lock_timeout=3.0
    )


@pytest.mark.parametrize("option", ["pool_max=many", "prepare=perhaps", "timeout=", "schema=a%22b"])
def test_a_wrong_value_is_refused_by_its_name(option: str) -> None:
    with pytest.raises(ConfigurationError, match=option.partition("=")[0]):
        message_store_config(f"postgresql://u:sesame@h/db?{option}")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://h/db?pool_mix=3", "an unknown option; did you mean 'pool_min'?"),
        ("postgresql://h/db?pool_max=3&sslmod=x", "an unknown option; did you mean 'sslmode'?"),
        ("postgresql://h/db?zzzz=", "an unknown option"),
        ("mongodb://h/db?timout=3", "an unknown option; did you mean 'timeout'?"),
        ("mongodb://h/db?readPreferense=x", "an unknown option; did you mean 'readpreference'?"),
        ("mongodb://h/db?maxPoolSize=x", "the value of 'maxPoolSize' is wrong"),
        ("redis://h/0?max_conections=5", "an unknown option; did you mean 'max_connections'?"),
        ("redis://h/0?lock_timout=5", "an unknown option; did you mean 'lock_timeout'?"),
        ("redis://h/0?db=0&zzzz=5", "an unknown option"),
        ("redis://h/0?socket_timeout=soon", "the value of 'socket_timeout' is wrong"),
    ],
)  # fmt: skip
def test_an_option_that_the_driver_refuses_has_a_hint(url: str, said: str) -> None:
    kind: Any = WorkingMemoryStore if url.startswith("redis") else MessageStore
    with pytest.raises(InvalidAddressError) as raised:
        kind.initialize(url)
    assert str(raised.value).endswith(f": it has {said}" if "unknown" in said else f": {said}")
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    ("kind", "address", "option"),
    [
        (MessageStore, {"dsn": "postgresql://h/db?schema=agents"}, "schema"),
        (MessageStore, {"uri": "mongodb://h/db?timeout=5"}, "timeout"),
        (WorkingMemoryStore, {"url": "redis://h/0?ttl_seconds=5"}, "ttl_seconds"),
    ],
)
def test_an_option_of_the_store_in_the_address_of_a_mapping_is_to_be_a_key(
    kind: Any, address: dict[str, str], option: str
) -> None:
    storage = {"dsn": "postgres", "uri": "mongodb", "url": "redis"}[next(iter(address))]
    with pytest.raises(InvalidAddressError, match=f"'{option}' is an option of the store; give"):
        kind.initialize({"storage": storage, **address})


@pytest.mark.parametrize(
    ("opened", "url"),
    [
        (MessageStore, "mongodb://:sesame@h/db?datetime_conversion=x"),
        (MessageStore, "mongodb+srv://:sesame@h.example.org:1/db"),
        (WorkingMemoryStore, "redis://:sesame@h?protocol=5"),
        (WorkingMemoryStore, "redis://:sesame@h?cache=x"),
        (WorkingMemoryStore, "rediss://:sesame@h?ssl_cert_reqs=x"),
    ],
)
def test_a_value_that_the_driver_refuses_in_its_own_way_is_refused(opened: Any, url: str) -> None:
    with pytest.raises(InvalidAddressError) as raised:
        opened.initialize(url)
    assert "sesame" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["postgresql://me:hunter?2=3@h/db?zzzz=1", "mongodb://me:hunter?2=3@h/db"]
)
def test_a_part_of_a_password_that_looks_like_an_option_is_not_repeated(url: str) -> None:
    with pytest.raises(InvalidAddressError) as raised:
        MessageStore.initialize(url)
    assert "hunter" not in str(raised.value)
    assert "2" not in str(raised.value)


@pytest.mark.parametrize(
    ("variable", "read"),
    [
        ("JAZZMINE_MESSAGE_STORE", message_store_config),
        ("JAZZMINE_WORKING_MEMORY", working_memory_config),
    ],
)
@pytest.mark.parametrize("url", ["messages", "sqlite:a.db?tiemout=5"])
def test_a_wrong_url_in_the_environment_is_said_to_be_there(
    monkeypatch: pytest.MonkeyPatch, variable: str, read: Callable[[None], object], url: str
) -> None:
    monkeypatch.setenv(variable, url)
    with pytest.raises(ConfigurationError, match=f"^{variable}: "):
        read(None)


@pytest.mark.parametrize(
    ("path", "storage"),
    [
        ("messages.json", "json"),
        ("./data/messages.JSON", "json"),
        ("/srv/agent.db", "sqlite"),
        ("agent.sqlite", "sqlite"),
        ("a/b:c.sqlite3", "sqlite"),
    ],
)
@pytest.mark.parametrize("kind", [str, Path])
def test_a_plain_path_is_a_file_of_the_kind_that_its_end_names(
    path: str, storage: str, kind: type
) -> None:
    found = message_store_config(kind(path))
    assert found.storage == storage
    assert Path(getattr(found, "path")) == Path(path).absolute()  # noqa: B009 - not every configuration has one


@pytest.mark.parametrize(
    "path", ["messages", Path("messages.txt"), "host=h password=sesame", "", ":a"]
)
def test_a_path_whose_end_says_nothing_is_refused_with_both_ways_to_say_it(path: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"\.json: json; \.db.* json:PATH or sqlite:PATH"):
        message_store_config(path)
    with pytest.raises(ConfigurationError, match=r"sqlite\); write sqlite:PATH$") as raised:
        working_memory_config(path)
    assert "sesame" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["sqlite:a.db?", "postgresql://h/db?timeout=5&", "mongodb://h/db?", "redis://h/0?"]
)
def test_keys_in_a_url_are_refused_without_being_repeated(url: str) -> None:
    read = working_memory_config if url.startswith("redis") else message_store_config

    with pytest.raises(ConfigurationError, match="set JAZZMINE_ENCRYPTION") as raised:
        read(f"{url}encryption=k1:c2VjcmV0")
    assert "c2VjcmV0" not in str(raised.value)
