"""Working memory in Redis: the names of the keys, and the scripts that are atomic on the server.

All keys of a conversation hold its escaped id in braces, the hash tag of Redis Cluster, so that
they lie on one server.

    wm:{id}              a hash: `data` is the state as JSON, `user` its user, `format` its format
    wm_lock:{id}         the token that holds the lock
    wm_line:{id}         a list: the queue of the tokens that wait for the lock
    wm_spent:{id}:token  for a while, the result of the last request of this token
    wm_corrupt:{id}      for a week, a state that could not be read
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

__all__ = [
    "ACQUIRE",
    "ANY_MEMORY",
    "ANY_SET_ASIDE",
    "DELETE",
    "ERASE",
    "FORMAT",
    "LOAD",
    "OWNER",
    "RELEASE",
    "RENEW",
    "SAVE",
    "SET_ASIDE",
    "SET_ASIDE_MS",
    "Keys",
    "Script",
    "conversation_of",
    "keys_of",
]

ANY_MEMORY = "wm:{*}"
ANY_SET_ASIDE = "wm_corrupt:{*}"
FORMAT = 1
SET_ASIDE_MS = 7 * 24 * 3600 * 1000

# A percent sign is escaped so that no two ids look alike once the braces are.
_ESCAPES = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})


class Keys:
    """The names of a conversation's keys; no other conversation has any of them."""

    __slots__ = ("_tag", "corrupt", "lock", "memory", "queue")

    def __init__(self, conversation_id: str) -> None:
        self._tag = tag = "{" + conversation_id.translate(_ESCAPES) + "}"
        self.memory: str = "wm:" + tag
        self.lock: str = "wm_lock:" + tag
        self.queue: str = "wm_line:" + tag
        self.corrupt: str = "wm_corrupt:" + tag

    def result(self, token: str) -> str:
        """Return the key of the result of a token's last request."""
        return f"wm_spent:{self._tag}:{token}"


@lru_cache(maxsize=1000)
def keys_of(conversation_id: str) -> Keys:
    """Return the names of a conversation's keys."""
    return Keys(conversation_id)


def conversation_of(key: str) -> str:
    """Return the id of the conversation that a key belongs to."""
    tag = key[key.index("{") + 1 : -1]
    return tag.replace("%7B", "{").replace("%7D", "}").replace("%25", "%")


@dataclass(frozen=True)
class Script:
    """A program that the server runs in one step, and the digest that the server knows it by."""

    text: str
    digest: str


def _script(name: str) -> Script:
    folder = files("jazzmine.backends.redis") / "scripts"
    text = "\n".join((folder / f"{part}.lua").read_text("utf-8") for part in ("common", name))
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


ACQUIRE = _script("acquire")
DELETE = _script("delete")
ERASE = _script("erase")
LOAD = _script("load")
OWNER = _script("owner")
RELEASE = _script("release")
RENEW = _script("renew")
SAVE = _script("save")
SET_ASIDE = _script("set_aside")
