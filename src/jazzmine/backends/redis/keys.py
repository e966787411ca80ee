"""Working memory in Redis: the names of the keys, and the scripts that are atomic on the server.

Both keys of a conversation hold its escaped id in braces, the hash tag of Redis Cluster, so that
they are on one server.

    wm:{id}       a hash: `data` is the state (JSON, or encrypted), `marks` the version tokens of
                  the last 16 saves, `user` its user, `format` its format
    wm_lock:{id}  while a block holds the lock: its token, its start (ms), and its holder
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.resources import files

ANY_STATE = "wm:{*}"

# A percent sign is escaped so that no two ids look alike once the braces are.
_ESCAPES = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})


@lru_cache(maxsize=1000)
def keys_of(conversation_id: str) -> tuple[bytes, bytes]:
    """Return the keys of a conversation's state and of its lock; no two share a key."""
    tag = b"{" + conversation_id.translate(_ESCAPES).encode() + b"}"
    return b"wm:" + tag, b"wm_lock:" + tag


def conversation_of(key: bytes) -> str:
    """Return the id of the conversation that the key of a state belongs to."""
    # A key of another program need not be UTF-8; no conversation has such an id.
    name = key.decode(errors="replace").removeprefix("wm:{").removesuffix("}")
    return name.replace("%7B", "{").replace("%7D", "}").replace("%25", "%")


class Script:
    """A program that the server runs in one step, and its digest."""

    def __init__(self, text: str) -> None:
        self.text: str = text
        self.digest: str = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _script(name: str) -> Script:
    folder = files("jazzmine.backends.redis") / "scripts"
    return Script("\n".join((folder / f"{n}.lua").read_text("utf-8") for n in ("common", name)))


LOCK = _script("lock")
WRITE = _script("write")
