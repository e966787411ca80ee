"""The long-term memory of LangGraph's graphs: its `BaseStore`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from time import time_ns
from typing import Any

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    PutOp,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
)

from jazzmine._async.long_term_memory.store import LongTermMemoryStore as AsyncItems
from jazzmine._sync.long_term_memory.store import LongTermMemoryStore
from jazzmine.adapters._calls import retry_conflicts
from jazzmine.adapters._steps import Steps
from jazzmine.adapters.langgraph.configs import user_of
from jazzmine.records.items import DeleteItem, MemoryItem, PutItem
from jazzmine.records.types import MAX_INT, MIN_INT

_ROOT = ("langgraph", "store")

_AT_ONCE = 500

# How many items a query ranks, if conditions are left that the database does not check.
_RANKED = 10_000

# What follows the life time in the bytes of an item that no query ranks.
_UNRANKED = b"/unranked"

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class JazzmineStore(BaseStore):
    """Keeps what graphs remember beyond one thread, for plain calls and coroutines alike.

    An item that a run with `configurable["user_id"]` puts is that user's: `erase_user` deletes it.
    Put again outside of such a run (by a job, or in an executor that was not given the run's
    context), it keeps its owner.
    An item that has expired is not there any more, at once. A search with a query ranks all items
    that the filters let through: those that match by their score, and then the others. One that
    was put with `index=False` is among the others.

    Args:
        items: an open long-term memory, as for `JazzmineSaver`. If it was opened with `embed`, a
            query ranks by vectors, and a score is the cosine with the nearest of an item; else it
            ranks by words.
        ttl: `default_ttl` in minutes, and `refresh_on_read` (True by default).
        fields: of which parts of a value vectors are made, one of each, as paths of LangGraph's
            such as `"text"` or `"parts[*].text"`; by default one of all its texts. `index=` of a
            `put` says it for an item.

    Raises:
        TypeError: `items` is no open long-term memory.
        RuntimeError: it is async, and no event loop runs.
    """

    supports_ttl = True

    def __init__(
        self,
        items: AsyncItems | LongTermMemoryStore,
        *,
        ttl: TTLConfig | None = None,
        fields: Sequence[str] | None = None,
    ) -> None:
        self._steps = Steps(items, (AsyncItems, LongTermMemoryStore))
        self._items: Any = self._steps.store
        self._has_vectors = items.embed is not None
        if isinstance(fields, str):
            raise TypeError("fields must be a list of paths, not one of them")
        self._fields = None if fields is None else list(fields)
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """Do some operations; reads see what was stored before all of them."""
        user_id = user_of(var_child_runnable_config.get())
        return self._steps.plain(self._batch(list(ops), user_id))

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        """Do the same as `batch`."""
        user_id = user_of(var_child_runnable_config.get())
        return await self._steps.awaited(self._batch(list(ops), user_id))

    async def _batch(self, operations: Sequence[Any], user_id: str | None) -> list[Any]:
        results: list[Any] = [None] * len(operations)
        gets = {
            index: (_place(operation.namespace), operation.key)
            for index, operation in enumerate(operations)
            if isinstance(operation, GetOp)
        }
        read: list[MemoryItem] = []
        for index, item in zip(gets, await self._items.get_many(gets.values()), strict=True):
            if item is not None:
                results[index] = Item(**_fields(item))
                if operations[index].refresh_ttl:
                    read.append(item)
        changes: dict[tuple[Any, str], Any] = {}
        for index, operation in enumerate(operations):
            if isinstance(operation, SearchOp):
                found = await self._search(operation)
                results[index] = [SearchItem(**_fields(item), score=score) for item, score in found]
                if operation.refresh_ttl:
                    read += [item for item, _ in found]
            elif isinstance(operation, ListNamespacesOp):
                results[index] = await self._list_namespaces(operation)
            elif isinstance(operation, PutOp):
                place = _place(operation.namespace)
                changes[place, operation.key] = self._change(place, operation, user_id)
            elif not isinstance(operation, GetOp):
                raise ValueError(f"unknown operation: {type(operation).__name__}")
        await self._refresh(read)
        if user_id is None:
            await retry_conflicts(partial(self._apply_as_owned, changes), self._items)
        else:
            await self._items.apply(changes.values())
        return results

    async def _apply_as_owned(self, changes: Mapping[tuple[Any, str], Any]) -> None:
        """Apply changes that are made in no user's run: an item keeps the owner that it has."""
        stored = await self._items.get_many(changes) if changes else []
        kept = [
            replace(
                change,
                item=change.item.model_copy(update={"user_id": old.user_id}),
                expected_revision=old.revision,
            )
            if isinstance(change, PutItem) and old is not None and old.user_id is not None
            else change
            for change, old in zip(changes.values(), stored, strict=True)
        ]
        await self._items.apply(kept)

    async def _search(self, operation: SearchOp) -> list[tuple[MemoryItem, float | None]]:
        prefix = _place(operation.namespace_prefix)
        wanted = dict(operation.filter or {})
        where = _simple_conditions(wanted)
        for key in where:
            del wanted[key]
        end = operation.offset + operation.limit
        ranked: list[tuple[MemoryItem, float | None]] = []
        if operation.query:
            ranked = [
                (found.item, found.score)
                for found in await self._items.search_items(
                    operation.query,
                    prefix=prefix,
                    where=where,
                    by="vectors" if self._has_vectors else "words",
                    limit=end if self._has_vectors and not wanted else _RANKED,
                )
                if _matches_all(found.item.value, wanted)
                and not (found.item.data or b"").endswith(_UNRANKED)
            ]
        seen = {(item.namespace, item.key) for item, _ in ranked}
        last = None
        while len(ranked) < end:
            page = await self._items.list_items(
                prefix, where=where, order="updated", limit=_AT_ONCE, after=last
            )
            ranked += [
                (item, None)
                for item in page
                if (item.namespace, item.key) not in seen and _matches_all(item.value, wanted)
            ]
            if len(page) < _AT_ONCE:
                break
            last = page[-1]
        return ranked[operation.offset : end]

    async def _list_namespaces(self, operation: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = operation.match_conditions or ()
        prefix: tuple[str, ...] = ()
        for condition in conditions:
            if condition.match_type == "prefix" and "*" not in condition.path:
                prefix = max(prefix, tuple(condition.path), key=len)
        end = operation.offset + operation.limit
        is_whole = not conditions and operation.max_depth is None
        stored = await self._items.list_namespaces(
            (*_ROOT, *prefix), limit=end if is_whole else None
        )
        namespaces = [namespace[len(_ROOT) :] for namespace in stored]
        found = dict.fromkeys(
            namespace[: operation.max_depth]
            for namespace in namespaces
            if all(_namespace_matches(namespace, condition) for condition in conditions)
        )
        return list(found)[operation.offset : end]

    async def _refresh(self, read: Iterable[MemoryItem]) -> None:
        """Let items that were read live on; one that another caller has changed is left alone."""
        alive = [
            item.model_copy(update={"expires_at": _end(lifetime)})
            for item in {(item.namespace, item.key): item for item in read}.values()
            if (lifetime := _lifetime(item.data)) is not None
        ]
        await self._items.renew(alive)

    def _change(self, place: tuple[str, ...], operation: PutOp, user_id: str | None) -> Any:
        if operation.value is None:
            return DeleteItem(place, operation.key)
        lifetime = None if operation.ttl is None else round(operation.ttl * 60_000)
        data = b"" if lifetime is None else str(lifetime).encode()
        paths = self._fields if operation.index is None else operation.index
        texts = [text for path in paths or () for text in get_text_at_path(operation.value, path)]
        if operation.index is False:
            data += _UNRANKED
        item = MemoryItem(
            namespace=place,
            key=operation.key,
            value=dict(operation.value),
            data=data or None,
            user_id=user_id,
            expires_at=None if lifetime is None else _end(lifetime),
        )
        return PutItem(item, texts=None if paths is None else texts)


def _place(namespace: Iterable[str]) -> tuple[str, ...]:
    return (*_ROOT, *namespace)


def _lifetime(data: bytes | None) -> int | None:
    """Return for how many ms an item lives on after it was read; None is for ever."""
    text = (data or b"").removesuffix(_UNRANKED)
    return int(text) if text else None


def _end(lifetime: int) -> int:
    return time_ns() // 1_000_000 + lifetime


def _fields(item: MemoryItem) -> dict[str, Any]:
    return {
        "namespace": item.namespace[len(_ROOT) :],
        "key": item.key,
        "value": item.value,
        "created_at": _time(item.created_at),
        "updated_at": _time(item.updated_at),
    }


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _simple_conditions(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return those conditions of a filter that the database can check: equal simple values.

    Not None, which a filter also finds where there is no value.
    """
    return {
        key: value
        for key, value in wanted.items()
        if key.isprintable()
        and (
            (type(value) is str and value.isprintable())
            or type(value) is bool
            or (type(value) is int and MIN_INT <= value <= MAX_INT)
            or (type(value) is float and isfinite(value))
        )
    }


def _matches_all(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a value has what a filter wants.

    Raises:
        ValueError: an operator is unknown.
    """
    return all(_matches(value.get(key), condition) for key, condition in wanted.items())


def _matches(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        if any(key.startswith("$") for key in wanted):
            return all(_compare(value, name, operand) for name, operand in wanted.items())
        return isinstance(value, dict) and _matches_all(value, wanted)
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(value) == len(wanted)
            and all(map(_matches, value, wanted))
        )
    return bool(value == wanted)


def _compare(value: Any, name: str, operand: Any) -> bool:
    if name not in _OPERATORS:
        raise ValueError(f"unknown operator {name!r}; there are {', '.join(_OPERATORS)}")
    are_texts = isinstance(value, str) and isinstance(operand, str)  # such as dates
    if are_texts or name in ("$eq", "$ne"):
        return _OPERATORS[name](value, operand)
    try:
        return _OPERATORS[name](float(value), float(operand))
    except (TypeError, ValueError):
        return False


def _namespace_matches(namespace: Sequence[str], condition: Any) -> bool:
    """Return whether a namespace begins or ends with a path, in which "*" is any label."""
    path = condition.path
    if condition.match_type == "suffix":
        path, namespace = path[::-1], namespace[::-1]
    return len(path) <= len(namespace) and all(
        wanted in ("*", label) for label, wanted in zip(namespace, path, strict=False)
    )
