"""Random calls to a long-term memory, one after another, each compared with a model of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jazzmine import ANY, ConflictError, DeleteItem, IntegrityError, MemoryItem, PutItem, ScopeError
from jazzmine.records.json_values import contains

Place = tuple[tuple[str, ...], str]

NAMESPACES = [
    ("a",),
    ("a", "b"),
    ("a", "b", "c"),
    ("a\0",),
    ("ab",),
    ("ab", "b"),
    ("é", "\U0001f600"),
]
KEYS = ["k", "k\0", "l"]
EXPIRED, LATER = 1, 2**53

places = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(KEYS))
prefixes = st.just(()) | st.sampled_from([*NAMESPACES, ("x",)])
users = st.sampled_from([None, "ann", "bob"])
owners = st.sampled_from(["ann", "bob"])
values = st.fixed_dictionaries(
    {},
    optional={
        "n": st.sampled_from([1, True, 1, True, 0, 1.0, None, [1], {"a": 1}]),
        "t": st.just("tea"),
    },
)
expectations = st.sampled_from(["any", "none", "stored", "former", "wrong"])
limits = st.none() | st.integers(0, 4)


@st.composite
def drafts(draw: Any) -> MemoryItem:
    namespace, key = draw(places)
    return MemoryItem(
        namespace=namespace,
        key=key,
        value=draw(values),
        data=draw(st.sampled_from([None, b"", b"\0\xff"])),
        user_id=draw(users),
        source_message_id=draw(st.sampled_from([None, "m1", "m2"])),
        expires_at=draw(st.sampled_from([None, None, LATER, EXPIRED])),
    )


def place_of(item: MemoryItem) -> Place:
    return item.namespace, item.key


class ItemMachine(RuleBasedStateMachine):
    """Makes each call to one of two stores on the same data, and to the model.

    Attributes:
        viewer: the user to whom the stores are scoped, or None.
    """

    open_store: ClassVar[Callable[[], Any]]
    runner: ClassVar[Any]
    count: ClassVar[int] = 2
    viewer: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.stores = [self.runner.run(type(self).open_store()) for _ in range(self.count)]
        self.stored: dict[Place, MemoryItem] = {}
        self.former: dict[Place, list[int]] = {}
        self.calls = 0

    def teardown(self) -> None:
        self.viewer = None
        for place in list(self.stored):
            self.call("delete", *place)
        for store in self.stores:
            self.runner.run(store.close())

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        store = self.stores[self.calls % self.count]
        if self.viewer is not None:
            store = store.scoped(user_id=self.viewer)
        return self.runner.run(getattr(store, method)(*arguments, **named))

    @precondition(lambda self: self.viewer is not None)
    @rule(viewer=owners)
    def look(self, viewer: str) -> None:
        self.viewer = viewer

    # The model

    def is_own(self, place: Place) -> bool:
        return self.viewer in (None, self.stored[place].user_id)

    def is_strange(self, user: str | None) -> bool:
        """Return whether a view refuses a user as an argument."""
        return self.viewer is not None and user not in (None, self.viewer)

    def live(self) -> dict[Place, MemoryItem]:
        return {
            place: one
            for place, one in self.stored.items()
            if one.expires_at != EXPIRED and self.is_own(place)
        }

    def is_taken(self, place: Place) -> bool:
        """Return whether another user has an item there."""
        stored = self.stored.get(place)
        return stored is not None and stored.expires_at != EXPIRED and not self.is_own(place)

    def owned(self, draft: MemoryItem) -> MemoryItem:
        """Return an item as a view stores it."""
        return draft.model_copy(update={"user_id": self.viewer}) if self.viewer else draft

    def revision(self, place: Place) -> int | None:
        found = self.live().get(place)
        return found.revision if found else None

    def expected(self, expectation: str, place: Place) -> Any:
        """Return an `expected_revision`."""
        former = self.former.get(place, [])
        named = {"any": ANY, "none": None, "stored": self.revision(place), "wrong": -1}
        return former[-1] if expectation == "former" and former else named.get(expectation, -1)

    def allows(self, expected: Any, place: Place) -> bool:
        return expected is ANY or expected == self.revision(place)

    def note(self, draft: MemoryItem, stored: MemoryItem) -> None:
        """Check a stored item, and keep it."""
        place, before = place_of(draft), self.live().get(place_of(draft))
        times = {"created_at": 0, "updated_at": 0, "revision": 0}
        assert stored.model_copy(update=times) == draft
        assert stored.revision not in self.former.get(place, [])
        assert stored.updated_at >= stored.created_at > 0
        if before is not None:
            assert stored.created_at == before.created_at
            assert stored.revision > before.revision
        self.former.setdefault(place, []).append(stored.revision)
        self.stored[place] = stored

    def stored_place(self, place: Place) -> Place:
        """Return a place of a stored item, which few of those that are drawn are."""
        number = NAMESPACES.index(place[0]) + KEYS.index(place[1])
        return list(self.stored)[number % len(self.stored)] if self.stored else place

    # The calls

    @initialize(several=st.lists(drafts(), min_size=3, max_size=6))
    def begin(self, several: list[MemoryItem]) -> None:
        for draft in several:
            self.put(draft, "any")

    @rule(draft=drafts(), expectation=expectations)
    def put(self, draft: MemoryItem, expectation: str) -> None:
        place = place_of(draft)
        expected = self.expected(expectation, place)
        allowed = self.allows(expected, place)

        try:
            stored = self.call("put", draft, expected_revision=expected)
        except ScopeError:
            assert self.is_strange(draft.user_id)
        except ConflictError:
            assert not allowed
        except IntegrityError:
            assert self.is_taken(place)
        else:
            assert allowed
            assert not self.is_strange(draft.user_id)
            assert not self.is_taken(place)
            self.note(self.owned(draft), stored)

    @rule(place=places, expectation=expectations)
    def delete(self, place: Place, expectation: str) -> None:
        expected = self.expected(expectation, place)
        allowed, was_there = self.allows(expected, place), place in self.live()

        try:
            deleted = self.call("delete", *place, expected_revision=expected)
        except ConflictError:
            assert not allowed
        else:
            assert allowed
            assert deleted is was_there
            self.forget(place)

    def forget(self, place: Place) -> None:
        if place in self.stored and self.is_own(place):
            del self.stored[place]

    @rule(draft=drafts())
    def put_anew(self, draft: MemoryItem) -> None:
        self.delete(place_of(draft), "any")
        self.put(draft, "any")

    @rule(
        changes=st.lists(
            st.tuples(
                st.one_of(drafts(), places), st.sampled_from(["any", "any", "stored", "none"])
            ),
            min_size=1,
            max_size=4,
            unique_by=lambda change: (
                place_of(change[0]) if isinstance(change[0], MemoryItem) else change[0]
            ),
        )
    )
    def apply(self, changes: list[Any]) -> None:
        given: list[Any] = []
        allowed, is_taken = True, False
        for what, expectation in changes:
            place = place_of(what) if isinstance(what, MemoryItem) else what
            expected = self.expected(expectation, place)
            allowed = allowed and self.allows(expected, place)
            is_item = isinstance(what, MemoryItem)
            is_taken = is_taken or (is_item and self.is_taken(place))
            change = DeleteItem(place[0], place[1], expected)
            given.append(PutItem(self.owned(what), expected) if is_item else change)
        live = self.live()

        try:
            results = self.call("apply", given)
        except ConflictError:
            assert not allowed
            return
        except IntegrityError:
            assert is_taken
            return
        assert allowed
        assert not is_taken
        for change, result in zip(given, results, strict=True):
            if isinstance(change, PutItem):
                self.note(change.item, result)
            else:
                place = (tuple(change.namespace), change.key)
                assert result is (place in live)
                self.forget(place)

    @rule(
        prefix=prefixes,
        where=st.none() | values,
        user=st.none() | users,
        source=st.sampled_from([None, None, None, "m1"]),
        order=st.sampled_from(["key", "updated"]),
        limit=limits,
        after=st.none() | places,
    )
    def list_items(
        self, prefix: Any, where: Any, user: Any, source: Any, order: Any, limit: Any, after: Any
    ) -> None:
        last = self.stored.get(after)
        by = place_of if order == "key" else (lambda one: (-one.updated_at, -one.revision))
        found = sorted(
            (
                one
                for one in self.live().values()
                if one.namespace[: len(prefix)] == prefix
                and contains(one.value, where or {})
                and user in (None, one.user_id)
                and source in (None, one.source_message_id)
                and (last is None or by(one) > by(last))
            ),
            key=by,
        )

        try:
            listed = self.call(
                "list_items",
                prefix,
                where=where,
                user_id=user,
                source_message_id=source,
                order=order,
                limit=limit,
                after=last,
            )
        except ScopeError:
            assert self.is_strange(user)
        else:
            assert not self.is_strange(user)
            assert listed == found[:limit]

    @rule(prefix=prefixes)
    def list_one_by_one(self, prefix: Any) -> None:
        listed: list[MemoryItem] = []
        page = self.call("list_items", prefix=prefix, limit=1)
        while page:
            assert page[0] not in listed
            listed += page
            page = self.call("list_items", prefix=prefix, limit=1, after=page[0])
        assert listed == sorted(
            (one for place, one in self.live().items() if place[0][: len(prefix)] == prefix),
            key=place_of,
        )

    @rule(
        prefix=prefixes,
        suffix=st.sampled_from([(), ("b",), ("b", "c")]),
        depth=st.none() | st.integers(1, 3),
        limit=limits,
    )
    def list_namespaces(self, prefix: Any, suffix: Any, depth: Any, limit: Any) -> None:
        found = sorted(
            {
                names[:depth]
                for names, _ in self.live()
                if names[: len(prefix)] == prefix and (*names, "")[-len(suffix) - 1 : -1] == suffix
            }
        )
        listed = self.call("list_namespaces", prefix, suffix=suffix, max_depth=depth, limit=limit)

        assert listed == found[:limit]

    @rule(prefix=prefixes, where=st.none() | values)
    def search(self, prefix: Any, where: Any) -> None:
        found = {
            place
            for place, one in self.live().items()
            if "t" in one.value
            and one.namespace[: len(prefix)] == prefix
            and contains(one.value, where or {})
        }

        listed = self.call("search_items", "Tea", prefix=prefix, where=where)

        assert {place_of(one.item) for one in listed} == found
        assert all(one.item == self.stored[place_of(one.item)] for one in listed)

    @rule(
        chosen=st.lists(places, max_size=3, unique=True),
        end=st.sampled_from([None, LATER, LATER - 1, EXPIRED]),
        is_former=st.booleans(),
    )
    def renew(self, chosen: list[Place], end: int | None, is_former: bool) -> None:
        given = []
        for place in dict.fromkeys(map(self.stored_place, chosen)):
            if place in self.stored:
                revision = self.former[place][0] if is_former else self.stored[place].revision
                changes: dict[str, Any] = {"expires_at": end, "revision": revision}
                changes.update(user_id=None, value={})
                given.append(self.stored[place].model_copy(update=changes))
        live = self.live()
        renewed = [
            one
            for one in given
            if place_of(one) in live and one.revision == live[place_of(one)].revision
        ]

        assert self.call("renew", given) == len(renewed)
        for place in map(place_of, renewed):
            self.stored[place] = self.stored[place].model_copy(update={"expires_at": end})

    @rule(what=st.sampled_from(["erase", "move", "prune"]), user=owners, taker=owners)
    def remove_or_move(self, what: str, user: str, taker: str) -> None:
        if what == "erase":
            self.erase_user(user)
        elif what == "move":
            self.move_user(user, taker)
        else:
            self.prune()

    def erase_user(self, user: str) -> None:
        gone = [place for place, one in self.stored.items() if one.user_id == user]

        try:
            assert self.call("erase_user", user) == len(gone)
        except ScopeError:
            assert self.is_strange(user)
        else:
            for place in gone:
                del self.stored[place]

    def move_user(self, giver: str, taker: str) -> None:
        theirs = [place for place, one in self.stored.items() if one.user_id == giver != taker]

        try:
            assert self.call("move_user", giver, taker) == len(theirs)
        except ScopeError:
            assert self.is_strange(giver) or self.is_strange(taker)
        else:
            for place in theirs:
                self.stored[place] = self.stored[place].model_copy(update={"user_id": taker})

    def prune(self) -> None:
        gone = [place for place in self.stored if self.is_own(place) and place not in self.live()]

        assert self.call("prune_expired") == len(gone)
        for place in gone:
            del self.stored[place]

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if self.calls % 3 == 0:  # of calls, not of steps: it need not be after each
            wanted = [(names, key) for names in NAMESPACES for key in KEYS]
            live = self.live()
            assert self.call("get_many", wanted) == [live.get(place) for place in wanted]
