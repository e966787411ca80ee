"""The window of a conversation: a part of the model of a message store."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

from jazzmine import Message, MessageRole

CALLERS = (MessageRole.ASSISTANT, MessageRole.COLLEAGUE_ASSISTANT)


def window_of(
    log: list[Message], max_tokens: int, cost: Callable[[Message], int] | None = None
) -> list[Message]:
    """Return the newest messages of a log that fit, each with the answers to its calls."""
    cost = cost or _tokens
    log = _until_many_answers(log[::-1])[::-1]
    answers = _answers(log)
    window: list[Message] = []
    for message in reversed(log if max_tokens else []):
        if message.is_flagged or message.role is MessageRole.TOOL or message.id not in answers:
            continue
        group = [message, *answers[message.id]]
        max_tokens -= sum(map(cost, group))
        if max_tokens < 0:
            break
        window += group
    return sorted(window, key=log.index)


def _until_many_answers(newest_first: list[Message]) -> list[Message]:
    """The messages before more than 100 answers in a row, flagged messages aside."""
    first = answers = 0
    for number, message in enumerate(newest_first):
        if not message.is_flagged:
            first, answers = (
                (first if answers else number, answers + 1)
                if message.role is MessageRole.TOOL
                else (0, 0)
            )
            if answers > 100:
                return newest_first[:first]
    return newest_first


def _answers(log: list[Message]) -> dict[str, list[Message]]:
    """Return the answers to each message, without the calls of which one is missing."""
    answers: dict[str, list[Message]] = {message.id: [] for message in log}
    answered: dict[str, list[str]] = {message.id: [] for message in log}
    unnamed: dict[str, int] = dict.fromkeys(answers, 0)
    for number, answer in enumerate(log):
        if answer.role is not MessageRole.TOOL or answer.is_flagged:
            continue
        name = answer.metadata.get("tool_call_id")
        callers = [one for one in reversed(log[:number]) if one.role in CALLERS]
        if name is not None:
            callers = [one for one in callers if not one.is_flagged and name in _calls(one)]
        if not callers:
            continue
        if name is None:
            answers[callers[0].id].append(answer)
            unnamed[callers[0].id] += 1
        elif answered[callers[0].id].count(name) < _calls(callers[0]).count(name):
            answers[callers[0].id].append(answer)
            answered[callers[0].id].append(name)
    for message in log:
        if len(_calls(message)) > len(answered[message.id]) + unnamed[message.id]:
            del answers[message.id]
    return answers


def _calls(message: Message) -> list[str]:
    if message.role not in CALLERS:
        return []
    return [call["id"] for call in message.metadata.get("tool_calls", ())]


def _tokens(message: Message) -> int:
    text = message.enhanced_message or message.original_content
    if "tool_calls" in message.metadata:
        text += json.dumps(message.metadata["tool_calls"], ensure_ascii=False)
    return 4 + math.ceil(len(text.encode()) / 4)
