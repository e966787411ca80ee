"""The keys of the tests, and records whose words must not be readable where they are stored."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any, NamedTuple

from jazzmine import Conversation, MemoryItem, Message, TurnTrace
from jazzmine.encryption import Keyring
from jazzmine.encryption.fields import PARTS, READABLE
from jazzmine.records.base import Record
from jazzmine.sync import LongTermMemoryStore, MessageStore, WorkingMemoryStore
from tests.behaviour.backends import Config
from tests.behaviour.samples import conversation, full_message, full_trace

FIRST, SECOND = "k1", "k2"
KEYS = {FIRST: bytes(range(32)), SECOND: bytes(range(32, 64)), "k3": bytes(range(64, 96))}

# Long enough for its forms in base64 not to stand in a ciphertext by chance.
WORD = "xylophonequartz"


def keyring(*ids: str) -> Keyring:
    """A keyring with some of the keys; the first one seals."""
    return Keyring({key_id: KEYS[key_id] for key_id in ids})


def as_text(*ids: str) -> str:
    """The same as the environment variable has it."""
    return ",".join(f"{key_id}:{b64encode(KEYS[key_id]).decode()}" for key_id in ids)


def forms(word: str) -> set[bytes]:
    """How bytes with a word in them look, in the forms in which servers show bytes."""
    plain = word.encode()
    # The middle of a text in base64 depends on where it begins.
    encoded = {b64encode(bytes(place) + plain)[4:-4] for place in range(3)}
    return {plain, plain.hex().encode(), plain.hex().upper().encode(), *encoded}


def named(record: Any) -> Any:
    """A record whose readable fields do not have the word."""
    kind: type[Record] = type(record)
    changes: dict[str, Any] = {}
    for name in READABLE[kind]:
        value = getattr(record, name)
        if value == WORD:
            changes[name] = "name"
        elif value == [WORD]:
            changes[name] = ["name"]
    for name in PARTS[kind]:
        changes[name] = list(map(named, getattr(record, name)))
    return record.model_copy(update=changes)


def secret_conversation(id: str = "c1", **fields: Any) -> Conversation:
    """A conversation with the word in all that is sealed."""
    return conversation(id, title=WORD, metadata={WORD: [WORD, 1]}, **fields)


def secret_message(id: str = "m1", **fields: Any) -> Message:
    """A message like that."""
    message: Message = named(full_message(id, WORD, **fields))
    return message


def secret_trace(message_id: str = "m1", **fields: Any) -> TurnTrace:
    """A trace like that."""
    trace: TurnTrace = named(full_trace(message_id, WORD, **fields))
    return trace


def secret_item(key: str = "k", **fields: Any) -> MemoryItem:
    """An item like that."""
    given: dict[str, Any] = {"value": {WORD: WORD}, "data": WORD.encode(), **fields}
    return MemoryItem(namespace=("n",), key=key, **given)


class Kind(NamedTuple):
    """A kind of store: how it is filled and read, and how many values of each kind it then has."""

    store: Any
    fill: Callable[[Any], None]
    read: Callable[[Any], list[Any]]
    counts: dict[str, int]

    def open(self, config: Config, *ids: str) -> Any:
        """Open a store, with some of the keys."""
        options = {"embed": embed} if self.store is LongTermMemoryStore else {}
        return self.store.initialize(sealed(config, *ids) if ids else config, **options)


def sealed(config: Config, *ids: str) -> Config:
    """The configuration with some of the keys, by default the first one."""
    return {**config, "encryption": keyring(*ids or [FIRST])}


MESSAGES = [secret_message(f"m{n}", timestamp=n // 3, is_flagged=False) for n in range(120)]
STATES, ITEMS = 12, 120


def talk(store: MessageStore) -> None:
    store.store_conversation(secret_conversation())
    store.store_messages(MESSAGES)
    store.store_turn_trace(secret_trace("m1"))
    store.store_turn_trace(secret_trace("m2"))


def said(store: MessageStore) -> list[Any]:
    return [
        *store.get_conversations(),
        store.get_messages_by_conversation_id("c1"),
        store.get_turn_traces_by_conversation_id("c1"),
    ]


def think(memory: WorkingMemoryStore) -> None:
    for number in range(STATES):
        memory.get_or_create(f"c{number}", "ann", "desk")
        memory.end_turn(f"c{number}", WORD, "greet")


def thought(memory: WorkingMemoryStore) -> list[Any]:
    return [memory.get(f"c{number}") for number in range(STATES)]


def embed(texts: list[str]) -> list[list[int]]:
    return [[3, 4]] * len(texts)


def keep(items: LongTermMemoryStore) -> None:
    for number in range(ITEMS):
        items.put(secret_item(f"k{number}"))


def kept(items: LongTermMemoryStore) -> list[Any]:
    return [*items.list_items(), *(found.item.key for found in items.search_items(WORD, limit=5))]


MESSAGE_KIND = Kind(MessageStore, talk, said, {"conversations": 1, "messages": 120, "traces": 2})
STATE_KIND = Kind(WorkingMemoryStore, think, thought, {"states": STATES})
ITEM_KIND = Kind(LongTermMemoryStore, keep, kept, {"items": ITEMS, "vectors": ITEMS})
