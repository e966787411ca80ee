"""Which of a conversation's newest messages fit into a number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jazzmine.records.arguments import require_count
from jazzmine.records.messages import Message, MessageRole

__all__ = ["CALLERS", "TYPICAL_TOKENS", "ContextWindow", "estimated_tokens"]

# The roles of messages that call tools; a tool's answer belongs to the nearest one before it.
CALLERS = frozenset({MessageRole.ASSISTANT, MessageRole.COLLEAGUE_ASSISTANT})

# What a message is expected to cost until some have been counted.
TYPICAL_TOKENS = 100.0

# A page holds so many times the messages that are expected to fit.
_MARGIN = 1.05
_LEAST_PAGE, _LARGEST_PAGE = 4, 500


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
        average: what a message is expected to cost.
    """

    def __init__(
        self, max_tokens: int, count_tokens: Callable[[Message], int], average: float
    ) -> None:
        self.is_full: bool = False
        self._left = max_tokens
        self._count = count_tokens
        self._expected = average
        self._spent = 0
        self._taken: list[Message] = []
        self._waiting: list[Message] = []  # from the newest answer whose call was not met yet

    @property
    def average(self) -> float:
        """What the messages have cost on average, or the expected cost before there are any."""
        taken = len(self._taken)
        return self._spent / taken if self._spent and taken else self._expected

    @property
    def page_size(self) -> int:
        """How many messages to read next: those that are expected to fit, and a few more."""
        fitting = self._left / max(self.average, 1.0) * _MARGIN + 1
        return int(min(max(fitting, _LEAST_PAGE), _LARGEST_PAGE))

    def add(self, messages: Iterable[Message]) -> None:
        """Take the next older messages; of the flagged ones, only those of `CALLERS` are given."""
        for message in messages:
            role = message.role
            if self._waiting or role is MessageRole.TOOL:
                self._waiting.append(message)
                if role in CALLERS:
                    self._settle(message)
            elif not message.is_flagged and not self._take(message):
                break
            if self.is_full:
                break

    def messages(self) -> list[Message]:
        """Return the messages of the window, oldest first, after the last one was added."""
        if not self.is_full:
            self._settle(None)
        return self._taken[::-1]

    def _take(self, message: Message) -> bool:
        """Take a message; False if it does not fit, and the window is full."""
        tokens = self._count(message)
        if type(tokens) is not int or tokens < 0:
            tokens = require_count("count_tokens(message)", tokens)
        if tokens > self._left:
            self.is_full = True
            return False
        self._left -= tokens
        self._spent += tokens
        self._taken.append(message)
        return True

    def _settle(self, call: Message | None) -> None:
        """Take the messages that waited for the call of the answers among them."""
        waiting, self._waiting = self._waiting, []
        has_call = call is not None and not call.is_flagged
        first = len(self._taken)
        for message in waiting:
            is_answer = message.role is MessageRole.TOOL
            if not message.is_flagged and (has_call or not is_answer) and not self._take(message):
                break
        if self.is_full:
            # The call is the oldest of them, so it was not taken.
            taken = self._taken[first:]
            self._taken[first:] = [one for one in taken if one.role is not MessageRole.TOOL]
