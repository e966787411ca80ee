"""Which of a conversation's newest messages fit into a number of tokens."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from jazzmine.records.arguments import require_count
from jazzmine.records.messages import Message, MessageRole

# The roles of messages that call tools.
CALLERS = frozenset({MessageRole.ASSISTANT, MessageRole.COLLEAGUE_ASSISTANT})

_TOOL = MessageRole.TOOL  # looking up a member of an enumeration takes long

# What a message costs beside its text, by the estimate.
LEAST_TOKENS = 4

# What a message is expected to cost until some have been counted.
_TYPICAL_TOKENS = 100.0

# A page holds so many times the messages that are expected to fit, but no more than the first page
# may hold and so many for each message that was counted: the next ones may be large.
_MARGIN = 1.05
_LEAST_PAGE, _FIRST_PAGE, _LARGEST_PAGE = 4, 24, 500
_GROWTH = 2

# A window ends before so many answers of tools in a row and one more: they cost nothing while their
# call is looked for, which may be far away or nowhere.
MOST_ANSWERS = 100


def estimated_tokens(message: Message) -> int:
    """Return a quarter of the UTF-8 bytes of what a model reads of a message, rounded up, and 4.

    A model reads its text and the calls in `metadata["tool_calls"]`.
    """
    text = message.enhanced_message or message.original_content
    if calls := message.metadata.get("tool_calls"):
        text += json.dumps(calls, ensure_ascii=False)
    size = len(text) if text.isascii() else len(text.encode())
    return (size + 3) // 4 + LEAST_TOKENS


class ContextWindow:
    """Takes messages from the newest to older ones, until the next one does not fit.

    The answers of tools are taken together with their call, when that is met: the newest message
    before the answer with its id in `metadata["tool_calls"]`, or, for an answer without a
    `tool_call_id`, the nearest message of an assistant or a colleague. An answer without its
    call is left out, and a call without the answers to all of its ids, too.

    Each message costs `least` or more; `is_even` says that all cost the same.
    """

    def __init__(
        self,
        max_tokens: int,
        count_tokens: Callable[[Message], int],
        *,
        least: int = 0,
        is_even: bool = False,
    ) -> None:
        self.is_full: bool = max_tokens < max(least, 1)
        self._max = self._left = max_tokens
        self._count = count_tokens
        self._least = least
        self._is_even = is_even
        self._added: list[Message] = []
        self._taken: list[int] = []  # the numbers of those of them that the window has
        self._answers: list[int] = []  # whose call was not met yet
        self._in_a_row = 0  # of answers, flagged messages aside

    @property
    def page_size(self) -> int:
        """How many messages to read next: those that are expected to fit, and a few more."""
        if self._is_even:
            return min(max(self._left, _LEAST_PAGE), _LARGEST_PAGE)
        spent = self._max - self._left
        average = spent / len(self._taken) if spent else _TYPICAL_TOKENS
        fitting = self._left / max(average, 1.0) * _MARGIN + 1
        longest = min(_FIRST_PAGE + _GROWTH * len(self._taken), _LARGEST_PAGE)
        return int(min(max(fitting, _LEAST_PAGE), longest))

    @property
    def is_waiting(self) -> bool:
        """Whether an answer was added whose call may be flagged."""
        return any(_call_of(self._added[number]) is None for number in self._answers)

    def add(self, messages: Sequence[Message]) -> None:
        """Take the next older messages; of the flagged ones, only those of `CALLERS` are given."""
        if self._is_even and not self._answers and _are_plain(messages):
            fitting = range(len(self._added), len(self._added) + min(len(messages), self._left))
            self._added += messages
            self._in_a_row = 0
            self._left -= len(fitting)
            self._taken += fitting
            self.is_full = not self._left
            return
        for message in messages:
            if self.is_full:
                return
            number = len(self._added)
            self._added.append(message)
            if message.role is _TOOL:
                self._in_a_row += 1
                self.is_full = self._in_a_row > MOST_ANSWERS
                self._answers.append(number)
                continue
            group: list[int] | None = [number]
            if (self._answers or message.metadata) and message.role in CALLERS:
                group = self._with_answers(number)
            if not message.is_flagged:
                self._in_a_row = 0
                if group is not None:
                    self._take(group)

    def messages(self) -> list[Message]:
        """Return the messages of the window, oldest first, after the last one was added."""
        return [self._added[number] for number in sorted(self._taken, reverse=True)]

    def _with_answers(self, number: int) -> list[int] | None:
        """Return a call and its answers, which wait no more; None if one of them is gone."""
        call = self._added[number]
        ids = Counter[str]() if call.is_flagged else _ids_of_calls(call)
        waiting, unnamed = list[int](), list[int]()
        named: dict[str, list[int]] = {name: [] for name in ids}
        for answer in self._answers:
            name = _call_of(self._added[answer])
            if name is None:
                unnamed.append(answer)
            else:
                named.get(name, waiting).append(answer)
        self._answers = waiting
        # The oldest ones, because ids may come again: in another turn, and in one message.
        answers = [one for name, found in named.items() for one in found[-ids[name] :]]
        is_whole = ids.total() <= len(answers) + len(unnamed)
        return [number, *answers, *unnamed] if is_whole else None

    def _take(self, group: list[int]) -> None:
        tokens = 0
        for number in group:
            cost = self._count(self._added[number])
            if type(cost) is not int or cost < 0:
                cost = require_count("count_tokens(message)", cost)
            tokens += cost
        if tokens > self._left:
            self.is_full = True
            return
        self._left -= tokens
        self._taken += group
        self.is_full = self._left < self._least


def _are_plain(messages: Iterable[Message]) -> bool:
    """Return whether no message is flagged, has a call, or is an answer: each counts for itself."""
    for message in messages:
        if message.role is _TOOL or message.metadata or message.is_flagged:
            return False
    return True


def _call_of(answer: Message) -> str | None:
    name = answer.metadata.get("tool_call_id")
    return name if isinstance(name, str) else None


def _ids_of_calls(message: Message) -> Counter[str]:
    """Return how many calls of a message have each id; some providers give all the same."""
    calls = message.metadata.get("tool_calls")
    listed = calls if isinstance(calls, list) else []
    found = [call.get("id") for call in listed if isinstance(call, dict)]
    return Counter(name for name in found if isinstance(name, str))


def split_at_answer(messages: list[Message]) -> tuple[list[Message], list[Message]]:
    """Return the messages before the first answer whose call may be flagged, and the others."""
    for number, message in enumerate(messages):
        if message.role is _TOOL and _call_of(message) is None:
            return messages[:number], messages[number:]
    return messages, []
