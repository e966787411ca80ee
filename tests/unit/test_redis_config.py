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
