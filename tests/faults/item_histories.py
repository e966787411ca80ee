"""Random concurrent calls on a few items of a long-term memory, and their valid results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from jazzmine import ANY, AnyMessage, ConflictError, DeleteItem, MemoryItem, PutItem
from tests.faults.linearizability import UNKNOWN, Operation, Outcome
from tests.faults.recorders import CONFLICT, RandomCalls

PLACES: list[tuple[tuple[str, ...], str]] = [
    (("n", "a"), "k"),
    (("n", "a"), "l"),
    (("n", "b"), "k"),
]
NO_NUMBERS: tuple[int | None, ...] = (None,) * len(PLACES)
EMPTY = (NO_NUMBERS, frozenset[tuple[float, int | None]]())
"""The state before all calls: the number in each item, None where there is none, and for each
erasure, by its beginning, None and the numbers that have to be gone when it ends.
"""

ERASED = "erased"
NAMES = (["put"] * 5 + ["delete"] * 2 + ["apply"] * 3 + ["erase"] + ["get"] * 3 + ["list"] * 2) + [
    "namespaces"
]

# How many items of a place an erasure may have deleted if that is not known.
ERASED_AT_MOST = 3


class Change(NamedTuple):
    """A change of the item at a place.

    Args:
        place: its index in `PLACES`.
        number: what is stored in it, None to delete it.
        expected: what it holds before the change.
    """

    place: int
    number: int | None
    expected: int | AnyMessage | None


class Given(NamedTuple):
    """What a call is given: changes, an index in `PLACES`, or a user."""

    changes: tuple[Change, ...] = ()
    place: int = 0
    user: int = 0


class Revisions:
    """The last revision with which each number was found."""

    def __init__(self) -> None:
        self._revisions: dict[int, int] = {}

    def note(self, item: MemoryItem) -> int:
        """Return the number in an item, and note its revision."""
        number: int = item.value["number"]
        # A store may repeat a put without a condition whose reply was lost.
        self._revisions[number] = max(item.revision, self._revisions.get(number, 0))
        assert item.user_id == f"u{number % 2}"
        assert item.data == str(number).encode()
        return number

    def of(self, expected: int | AnyMessage | None) -> int | AnyMessage | None:
        """Return the revision of the item that holds a number."""
        return self._revisions[expected] if isinstance(expected, int) else expected


class ItemRecorder(RandomCalls[Given]):
    """One client: makes random calls, and remembers when each began and ended.

    Args:
        seed: of the client's own choices, and part of its numbers.
        revisions: what all clients know of revisions.
    """

    first = EMPTY
    reads = ("get", "list", "namespaces")

    def __init__(self, seed: int, revisions: Revisions) -> None:
        super().__init__(seed)
        self._revisions = revisions
        self._next = seed * 1_000_000
        self._seen: list[int | None] = list(NO_NUMBERS)

    def choose(self) -> tuple[str, Given]:
        """Return the name of the next call, and what it is given."""
        name = self._random.choice(NAMES)
        places = self._random.sample(range(len(PLACES)), 2 if name == "apply" else 1)
        changes = tuple(self._change(place, name) for place in places)
        return name, Given(changes, places[0], self._random.randrange(2))

    def _change(self, place: int, name: str) -> Change:
        self._next += self._random.randrange(1, 4)
        deletes = name == "delete" or (name == "apply" and self._random.random() < 0.3)
        expected: int | AnyMessage | None = ANY
        if self._random.random() < 0.5:
            expected = self._seen[place]
        return Change(place, None if deletes else self._next, expected)

    def _start(self, store: Any, name: str, given: Given) -> Any:
        if name == "get":
            return store.get(*PLACES[given.place])
        if name == "list":
            return store.list_items(("n",))
        if name == "namespaces":
            return store.list_namespaces(("n",))
        if name == "erase":
            return store.erase_user(f"u{given.user}")
        changes = list(map(self._given, given.changes))
        if name == "apply":
            return store.apply(changes)
        [change] = changes
        if isinstance(change, PutItem):
            return store.put(change.item, expected_revision=change.expected_revision)
        return store.delete(
            change.namespace, change.key, expected_revision=change.expected_revision
        )

    def _given(self, change: Change) -> PutItem | DeleteItem:
        (namespace, key), number = PLACES[change.place], change.number
        expected = self._revisions.of(change.expected)
        if number is None:
            return DeleteItem(namespace, key, expected)
        item = MemoryItem(
            namespace=namespace,
            key=key,
            value={"number": number},
            data=str(number).encode(),
            user_id=f"u{number % 2}",
        )
        return PutItem(item, expected)

    def _found(self, name: str, given: Given, result: Any) -> Any:
        if isinstance(result, ConflictError):
            return CONFLICT
        if name == "erase":
            return ERASED
        if name in ("put", "delete"):
            result = [result]
        if name == "list":
            self._seen = list(NO_NUMBERS)
        if isinstance(result, list):
            return tuple(map(self._noted, result))
        number = self._noted(result)
        self._seen[given.place] = number
        return number

    def _remember(self, call: Operation, result: Any) -> None:
        super()._remember(call, result)
        if call.name != "erase":
            return
        # It deletes item after item, and ends when there is none.
        count, until = ERASED_AT_MOST, call.until
        if call.result is not UNKNOWN:
            count, until = result, call.ended
            self.history.append(replace(call, name="erase begins", ended=call.began, result=None))
        for place in range(len(PLACES)):
            given = call.argument._replace(place=place)
            one = replace(call, name="erase one", argument=given, result=UNKNOWN, until=until)
            self.history += [one] * count

    def _noted(self, found: Any) -> Any:
        """Return what is known of a result: a number, whether there was an item, or a namespace."""
        if not isinstance(found, MemoryItem):
            return found
        number = self._revisions.note(found)
        self._seen[PLACES.index((found.namespace, found.key))] = number
        return number

    def model(self, state: Any, operation: Operation) -> Outcome:
        """Apply a call to the numbers in the items."""
        given: Given = operation.argument
        stored, doomed = state
        if operation.name == "get":
            return Outcome(stored[given.place], state)
        if operation.name == "list":
            return Outcome(tuple(number for number in stored if number is not None), state)
        if operation.name == "namespaces":
            found = (PLACES[n][0] for n, number in enumerate(stored) if number is not None)
            return Outcome(tuple(dict.fromkeys(found)), state)
        if operation.name == "erase begins":
            there = {number for number in stored if number is not None and number % 2 == given.user}
            new = {(operation.began, number) for number in (None, *there)}
            return Outcome(None, (stored, doomed | new))
        if (
            operation.name == "erase"
        ):  # what was there is gone; the deletions are calls of their own
            own = {number for began, number in doomed if began == operation.began}
            left = {one for one in doomed if one[0] != operation.began}
            is_done = None in own and own.isdisjoint({*stored} - {None})
            return Outcome(ERASED if is_done else None, (stored, frozenset(left)))
        numbers = list(stored)
        if operation.name == "erase one":
            number = stored[given.place]
            if number is not None and number % 2 == given.user:
                numbers[given.place] = None
            return Outcome(None, (tuple(numbers), doomed))
        if any(one.expected not in (ANY, stored[one.place]) for one in given.changes):
            return Outcome(CONFLICT, state)
        results = []
        for one in given.changes:
            results.append(numbers[one.place] is not None if one.number is None else one.number)
            numbers[one.place] = one.number
        return Outcome(tuple(results), (tuple(numbers), doomed))

    def is_related(self, one: Operation, other: Operation) -> bool:
        """Whether two calls are about the same items."""
        return not _places(one).isdisjoint(_places(other))

    def reads_of_all(self) -> list[tuple[str, Given]]:
        """The list of all items."""
        return [("list", Given())]


def _places(operation: Operation) -> set[int]:
    given: Given = operation.argument
    if operation.name == "erase begins":
        return set()
    if operation.name in ("list", "namespaces", "erase"):
        return set(range(len(PLACES)))
    if operation.name in ("get", "erase one"):
        return {given.place}
    return {one.place for one in given.changes}


def parts_of(call: Operation) -> list[Operation]:
    """Return a call with its deletions that found nothing as reads of their own.

    A transaction of MongoDB does not conflict with who puts an item where it found none.
    """
    given, results = call.argument, call.result
    if call.name != "apply" or not isinstance(results, tuple):
        return [call]
    pairs = list(zip(given.changes, results, strict=True))
    made = tuple(change for change, result in pairs if result is not False)
    kept = tuple(result for _, result in pairs if result is not False)
    reads = [
        replace(call, name="get", argument=given._replace(place=change.place), result=None)
        for change, result in pairs
        if result is False
    ]
    return [replace(call, argument=given._replace(changes=made), result=kept), *reads]
