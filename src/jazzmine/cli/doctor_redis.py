"""Checks of a Redis set-up, through a client of redis-py."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from jazzmine.backends.redis.driver import redis_driver, translated
from jazzmine.config import RedisConfig
from jazzmine.findings import Finding, clocks_compared, failed, fine, warning

_OLDEST = (6, 2)


def check_redis(config: RedisConfig) -> Iterator[Finding]:
    """Yield what is found."""
    redis: Any = redis_driver()
    seconds = min(config.timeout, 5.0)
    client = redis.Redis.from_url(
        config.url, socket_timeout=seconds, socket_connect_timeout=seconds, decode_responses=True
    )
    with closing(client):
        try:
            yield from _check(client, redis)
        except redis.RedisError as error:
            raise translated(error, client) from None


def _check(client: Any, redis: Any) -> Iterator[Finding]:
    before = time.time()
    seconds, microseconds = client.time()
    yield clocks_compared(seconds + microseconds / 1e6, before, time.time())
    server = client.info("server")
    yield _check_version(server["redis_version"])
    save = policy = None
    try:
        save = client.config_get("save").get("save", "")
        policy = client.config_get("maxmemory-policy").get("maxmemory-policy")
    except redis.ResponseError:
        pass  # managed servers refuse CONFIG
    yield _check_persistence(client.info("persistence"), save)
    memory = client.info("memory")
    yield _check_memory(policy, memory.get("maxmemory", 0), memory["used_memory"])


def _check_version(name: str) -> Finding:
    numbers = tuple(int(part) for part in name.split(".")[:2] if part.isdecimal())
    if numbers < _OLDEST:
        return failed(f"Redis {name} is too old", "upgrade the server to 6.2 or newer")
    return fine(f"Redis {name}")


def _check_persistence(info: Mapping[str, Any], save: str | None) -> Finding:
    """Return whether stored data survive a restart of the server.

    Args:
        info: its section `persistence`.
        save: the setting of that name, or None if it may not be read.
    """
    cure = "CONFIG SET appendonly yes, and `appendonly yes` in redis.conf"
    if info.get("aof_enabled"):
        return fine("the append-only file is on")
    if save == "":
        return failed(
            "nothing is kept on the disk: a restart of Redis loses all working memory", cure
        )
    return warning(
        "the append-only file is off: a crash loses what came after the last snapshot", cure
    )


def _check_memory(policy: str | None, limit: int, used: int) -> Finding:
    """Return whether the server's memory is full, or it deletes data in use when that is full."""
    if used > limit > 0:
        return failed(
            "the server's memory is full: it refuses to save",
            "CONFIG SET maxmemory to a larger size, or delete other keys",
        )
    if policy is None or not limit or policy == "noeviction":
        return fine("no working memory is deleted to make room")
    return warning(
        f"with maxmemory-policy {policy} a full server deletes working memory that is in use",
        "CONFIG SET maxmemory-policy noeviction, and a maxmemory that is large enough",
    )
