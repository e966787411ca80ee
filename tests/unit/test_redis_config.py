"""The accepted configurations of working memory in Redis; errors repeat no secret."""

import pytest

from jazzmine.config import RedisConfig, working_memory_config
from jazzmine.errors import InvalidAddressError
from jazzmine.sync.working_memory import WorkingMemoryStore

SECRET = "swordfish"


@pytest.mark.parametrize(
    "url",
    [
        "redis://host",
        "rediss://user:pw@host:7000/3",
        "unix:///run/redis.sock?db=1",
        "redis://[::1]",
    ],
)
def test_a_url_alone_is_enough(url: str) -> None:
    assert working_memory_config(url) == RedisConfig(url)


def test_the_environment_may_name_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAZZMINE_WORKING_MEMORY", "redis://host")

    assert working_memory_config(None) == RedisConfig("redis://host")


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{SECRET}@host:port/0",
        f"redis://:{SECRET}@host:99999/0",
        f"redis://:{SECRET}@host/{SECRET}",
        f"redis://:{SECRET}@[::1/0",
        f"redis:{SECRET}",
        f"redis://:{SECRET}@host/0?socket_timeout={SECRET}",
        f"redis://:{SECRET}@host/0?{SECRET}=1",
        f"http://:{SECRET}@host",
    ],
)
def test_a_malformed_url_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(InvalidAddressError) as raised:
        WorkingMemoryStore.initialize({"storage": "redis", "url": url})

    error: BaseException | None = raised.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("socket_timeout=soon", r"the value of 'socket_timeout' is wrong$"),
        ("max_conections=5", r"unknown option; did you mean 'max_connections'\?$"),
        ("lock_timout=5", r"unknown option; did you mean 'lock_timeout'\?$"),
        ("db=0&zzzz=5", r"unknown option$"),
    ],
)
def test_a_wrong_option_of_a_url_is_named(option: str, named: str) -> None:
    with pytest.raises(InvalidAddressError, match=named):
        WorkingMemoryStore.initialize({"storage": "redis", "url": f"redis://host/0?{option}"})


def test_no_secret_is_in_the_repr() -> None:
    assert SECRET not in repr(RedisConfig(f"redis://:{SECRET}@host"))
