"""Options of a store in its URL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine.config import (
    JSONStoreConfig,
    MongoDBConfig,
    PostgresConfig,
    RedisConfig,
    message_store_config,
    working_memory_config,
)
from jazzmine.errors import ConfigurationError, InvalidAddressError
from jazzmine.sync import MessageStore, WorkingMemoryStore


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
    ("opened", "url"),
    [
        (MessageStore, "mongodb://:sesame@h/db?datetime_conversion=x"),
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
