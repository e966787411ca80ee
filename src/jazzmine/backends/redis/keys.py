"""Working memory in Redis: the names of the keys, and the scripts that are atomic on the server.

All keys of a conversation hold its escaped id in braces, the hash tag of Redis Cluster, so that
they lie on one server.

    wm:{id}             a hash: `data` is the state (JSON, or sealed), `mark` the mark of the save
                        that wrote it, `user` its user, `format` its format
    wm_lock:{id}        while a block holds the lock: its mark, since when (ms), and who it is
    wm_last:{id}:store  for a while, the last number that a store has written with
    wm_deleted:{id}     for a while, the mark of the deletion, where there is no state
    wm_corrupt:{id}     for a week, a state that could not be read
    wm:id               the state as JSON, as jazzmine 0.1 wrote it; it may lie on another server
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.resources import files

__all__ = [
    "ANY_MEMORY",
    "ANY_SET_ASIDE",
    "LOCK",
    "OWNER",
    "PREDECESSOR",
    "READ",
    "REPLACE",
    "SET_ASIDE",
    "SET_ASIDE_MS",
    "UNMARKED",
    "WRITE",
    "Keys",
    "Script",
    "conversation_of",
    "keys_of",
    "known_mark",
    "mark_of",
]

ANY_MEMORY = "wm:*"
ANY_SET_ASIDE = "wm_corrupt:{*}"
SET_ASIDE_MS = 7 * 24 * 3600 * 1000

# What the scripts know, and the marks begin with, of states that earlier versions wrote.
PREDECESSOR = "0.1.42"  # a string
UNMARKED = "unmarked"  # a hash

# A percent sign is escaped so that no two ids look alike once the braces are.
_ESCAPES = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})


class Keys:
    """The names of a conversation's keys, as the server gets them; no other one has any of them.

    Attributes:
        predecessor: the key of jazzmine 0.1; empty where a conversation has it as `memory`.
    """

    __slots__ = ("_tag", "corrupt", "deleted", "lock", "memory", "predecessor")

    def __init__(self, conversation_id: str) -> None:
        self._tag = tag = b"{" + conversation_id.translate(_ESCAPES).encode() + b"}"
        self.memory: bytes = b"wm:" + tag
        self.lock: bytes = b"wm_lock:" + tag
        self.deleted: bytes = b"wm_deleted:" + tag
        self.corrupt: bytes = b"wm_corrupt:" + tag
        in_braces = conversation_id.startswith("{") and conversation_id.endswith("}")
        self.predecessor: bytes = b"" if in_braces else b"wm:" + conversation_id.encode()

    def of_store(self, store: str) -> tuple[bytes, bytes, bytes, bytes]:
        """Return the keys that the scripts take for a request of a store."""
        last = b"wm_last:" + self._tag + b":" + store.encode()
        return self.memory, self.lock, self.deleted, last


@lru_cache(maxsize=1000)
def keys_of(conversation_id: str) -> Keys:
    """Return the names of a conversation's keys."""
    return Keys(conversation_id)


def conversation_of(key: bytes) -> str:
    """Return the id of the conversation that a key with a state belongs to."""
    # A key of somebody else's need not be UTF-8; no conversation has such an id.
    name = key.decode(errors="replace").partition(":")[2]
    if not (name.startswith("{") and name.endswith("}")):
        return name
    return name[1:-1].replace("%7B", "{").replace("%7D", "}").replace("%25", "%")


def mark_of(kind: str, data: bytes) -> str:
    """Return the mark of a state that an earlier version wrote, without any."""
    return f"{kind}#{hashlib.sha1(data, usedforsecurity=False).hexdigest()}"


def known_mark(mark: str) -> str:
    """Return a mark as the scripts know it."""
    return mark.partition("#")[0]


class Script:
    """A program that the server runs in one step, and the digest that the server knows it by."""

    def __init__(self, text: str) -> None:
        self.text: str = text
        self.digest: str = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _script(name: str) -> Script:
    folder = files("jazzmine.backends.redis") / "scripts"
    return Script("\n".join((folder / f"{n}.lua").read_text("utf-8") for n in ("common", name)))


LOCK = _script("lock")
OWNER = _script("owner")
READ = _script("read")
REPLACE = _script("replace")
SET_ASIDE = _script("set_aside")
WRITE = _script("write")
