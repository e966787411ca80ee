"""Checks of a Redis set-up, through a client of redis-py."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from jazzmine.backends.clock import compared
from jazzmine.backends.redis import doctor
from jazzmine.backends.redis.driver import redis_driver, translated
from jazzmine.config import RedisConfig
from jazzmine.findings import Finding


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
    yield compared(seconds + microseconds / 1e6, before, time.time())
    server = client.info("server")
    yield doctor.check_version(server["redis_version"])
    save = policy = None
    try:
        save = client.config_get("save").get("save", "")
        policy = client.config_get("maxmemory-policy").get("maxmemory-policy")
    except redis.ResponseError:
        pass  # managed servers refuse CONFIG
    yield doctor.check_persistence(client.info("persistence"), save)
    yield doctor.check_eviction(policy, client.info("memory").get("maxmemory", 0))
