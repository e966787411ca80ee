"""Which of a conversation's newest messages fit into a number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jazzmine.records.arguments import require_count
from jazzmine.records.messages import Message, MessageRole

__all__ = ["CALLERS", "MOST_ANSWERS", "ContextWindow", "estimated_tokens", "split_at_answer"]

# The roles of messages that call tools; a tool's answer belongs to the nearest one before it.
CALLERS = frozenset({MessageRole.ASSISTANT, MessageRole.COLLEAGUE_ASSISTANT})

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
    """Return a quarter of the UTF-8 bytes of what a model reads of a message, rounded up."""
    text = message.enhanced_message or message.original_content
    size = len(text) if text.isascii() else len(text.encode())
    return (size + 3) // 4


class ContextWindow:
    """Takes messages from the newest to older ones, until the next one does not fit.

    Args:
        max_tokens: what the messages may cost together.
        count_tokens: returns the cost of a message; it is called once for each.
    """

    def __init__(self, max_tokens: int, count_tokens: Callable[[Message], int]) -> None:
        self.is_full: bool = False
        self._left = max_tokens
        self._count = count_tokens
        self._spent = 0
        self._taken: list[Message] = []
        self._waiting: list[Message] = []  # from the newest answer whose call was not met yet
        self._waiting_cost = 0  # of those that are taken without their call, too
        self._costs: dict[str, int] = {}
        self._answers = 0  # that stand in a row, flagged messages aside

    @property
    def page_size(self) -> int:
        """How many messages to read next: those that are expected to fit, and a few more."""
        average = self._spent / len(self._taken) if self._spent else _TYPICAL_TOKENS
        fitting = self._left / max(average, 1.0) * _MARGIN + 1
        longest = min(_FIRST_PAGE + _GROWTH * len(self._costs), _LARGEST_PAGE)
        return int(min(max(fitting, _LEAST_PAGE), longest))

    @property
    def is_waiting(self) -> bool:
        """Whether a tool's answer was given whose call was not."""
        return bool(self._waiting)

    def add(self, messages: Iterable[Message]) -> None:
        """Take the next older messages; of the flagged ones, only those of `CALLERS` are given."""
        for message in messages:
            role = message.role
            if role is MessageRole.TOOL:
                self._answers += 1
                if self._answers > MOST_ANSWERS:
                    self._settle(None)
                    self.is_full = True
                    break
            elif not message.is_flagged:
                self._answers = 0
            if self._waiting or role is MessageRole.TOOL:
                self._wait(message)
                if role in CALLERS:
                    self._settle(message)
                elif self._waiting_cost > self._left:
                    # What stands between the answer and its call does not fit.
                    self._settle(None)
            elif not message.is_flagged and not self._take(message):
                break
            if self.is_full:
                break

    def messages(self) -> list[Message]:
        """Return the messages of the window, oldest first, after the last one was added."""
        if not self.is_full:
            self._settle(None)
        return self._taken[::-1]

    def _wait(self, message: Message) -> None:
        self._waiting.append(message)
        if not message.is_flagged and message.role is not MessageRole.TOOL:
            self._waiting_cost += self._cost(message)

    def _cost(self, message: Message) -> int:
        tokens = self._costs.get(message.id)
        if tokens is None:
            tokens = self._count(message)
            if type(tokens) is not int or tokens < 0:
                tokens = require_count("count_tokens(message)", tokens)
            self._costs[message.id] = tokens
        return tokens

    def _take(self, message: Message) -> bool:
        """Take a message; False if it does not fit, and the window is full."""
        tokens = self._cost(message)
        if tokens > self._left:
            self.is_full = True
            return False
        self._left -= tokens
        self._spent += tokens
        self._taken.append(message)
        return True

    def _settle(self, call: Message | None) -> None:
        """Take what waited for the call of the answers among it; without their call, not those.

        Args:
            call: the last of those that waited, or None if there is none or it would not fit.
        """
        waiting, self._waiting, self._waiting_cost = self._waiting, [], 0
        shown = [message for message in waiting if not message.is_flagged]
        if call is not None and not call.is_flagged:
            if sum(map(self._cost, shown)) <= self._left:
                for message in shown:
                    self._take(message)
                return
            shown.remove(call)
            self.is_full = True
        for message in shown:
            if message.role is not MessageRole.TOOL and not self._take(message):
                break


def split_at_answer(messages: list[Message]) -> tuple[list[Message], list[Message]]:
    """Return the messages before the first answer of a tool, and the others."""
    for number, message in enumerate(messages):
        if message.role is MessageRole.TOOL:
            return messages[:number], messages[number:]
    return messages, []
