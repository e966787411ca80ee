"""The model of a store that is scoped to a user: it filters what is in a `Model`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, TypeVar

from jazzmine import Conversation, IntegrityError, Message, ScopeError, TraceFilter, TurnTrace
from jazzmine.records.base import Record
from tests.behaviour.model import Model

AnyRecord = TypeVar("AnyRecord", bound=Record)

OF_TRACES = {"find_turn_traces", "get_turn_traces_by_agent_id", "summarize_usage"}
BY_USER = {"erase_user", "get_conversations_by_user_id", "get_messages_by_user_id"}


class ScopedModel:
    """Has the methods of a model, for the records that a user sees.

    Args:
        model: the records of all users, which its methods change.
        viewer: the user.
    """

    def __init__(self, model: Model, viewer: str) -> None:
        self._model = model
        self._viewer = viewer

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            model, view = self._model, Model()
            before = dict(model.conversations), dict(model.messages), dict(model.traces)
            view.conversations = _Seen(model.conversations, self._is_own)  # type: ignore[assignment]
            view.messages = _Seen(model.messages, self._is_within)  # type: ignore[assignment]
            view.traces = _Seen(model.traces, self._is_within)  # type: ignore[assignment]
            try:
                self._check(name, [*args, *kwargs.values()])
                if name in OF_TRACES:
                    return self._of_traces(view, name, args, kwargs)
                return getattr(view, name)(*args, **kwargs)
            except Exception:
                model.conversations, model.messages, model.traces = before
                raise

        return call

    def _of_traces(self, view: Model, name: str, args: Any, kwargs: Any) -> Any:
        """Lists and sums over several conversations are of the traces that name the user."""
        where = TraceFilter(agent_id=args[0]) if "agent" in name else args[0]
        if where.conversation_id is None:
            where = where.model_copy(update={"user_id": self._viewer})
        if name == "summarize_usage":
            of_all = where.conversation_id is None
            return (self._model if of_all else view).summarize_usage(where, **kwargs)
        if name == "find_turn_traces":
            return view.find_turn_traces(where, **kwargs)
        limit, offset = args[1:]
        return view.find_turn_traces(where, limit=offset + limit)[offset:]

    def _check(self, name: str, given: list[Any]) -> None:
        """Raise what a store raises before it reads anything."""
        records = [one for some in given for one in (some if isinstance(some, list) else [some])]
        for record in records:
            if isinstance(record, Record):
                type(record).model_validate(record)
        named = {one.user_id for one in records if isinstance(one, (Conversation, TraceFilter))}
        if name in BY_USER:
            named.add(given[0])
        if name == "move_user":
            named.update(given)
        if named - {self._viewer, None}:
            raise ScopeError

    def _is_own(self, conversation: Conversation) -> bool:
        return conversation.user_id == self._viewer

    def _is_within(self, record: Message | TurnTrace) -> bool:
        owner = self._model.conversations.get(record.conversation_id)
        return owner is not None and self._is_own(owner)


class _Seen(MutableMapping[str, AnyRecord]):
    """The records of a table that a user sees; none may take the place of another user's."""

    def __init__(self, table: dict[str, AnyRecord], is_seen: Callable[[Any], bool]) -> None:
        self._table = table
        self._is_seen = is_seen

    def __getitem__(self, key: str) -> AnyRecord:
        if key not in self._table or not self._is_seen(self._table[key]):
            raise KeyError(key)
        return self._table[key]

    def __setitem__(self, key: str, record: AnyRecord) -> None:
        if key in self._table and key not in self:
            raise IntegrityError
        self._table[key] = record

    def __delitem__(self, key: str) -> None:
        assert key in self
        del self._table[key]

    def __iter__(self) -> Iterator[str]:
        return iter([key for key in self._table if key in self])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def values(self) -> list[AnyRecord]:  # type: ignore[override]
        return [self._table[key] for key in self]
