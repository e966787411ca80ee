"""Which thread analyses the texts that an async store indexes."""

from __future__ import annotations

import threading
from typing import Any
from unittest.mock import patch

from jazzmine.core.message_store import Conversation, Message, MessageRole, MessageStore
from jazzmine.search.analyser import Analyser

_SHORT, _LONG = "word " * 10, "word " * 200_000


class AnalysingThreads:
    """While it is entered, notes the thread that analyses each text."""

    def __init__(self) -> None:
        self._noted: list[tuple[bool, bool]] = []
        self._patch: Any = None

    def __enter__(self) -> AnalysingThreads:
        entry = Analyser.entry

        def noted(analyser: Analyser, text: str) -> str:
            is_main = threading.current_thread() is threading.main_thread()
            self._noted.append((len(text) > len(_SHORT), is_main))
            return entry(analyser, text)

        self._patch = patch.object(Analyser, "entry", noted)
        self._patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.stop()

    def are_others(self, *, short: int, long: int) -> bool:
        """Return whether so many short texts were analysed at once, and long ones in threads."""
        return sorted(self._noted) == [(False, True)] * short + [(True, False)] * long


async def store_long_texts(config: dict[str, Any]) -> None:
    """Store a short text and a long one in each of three ways, alternately."""
    async with await MessageStore.initialize(config) as store:
        await store.store_conversation(Conversation(id="c1", user_id="u", agent_id="a"))
        for number, text in enumerate((_SHORT, _LONG)):
            first, second, third = (
                Message(
                    id=f"m{number}-{way}",
                    conversation_id="c1",
                    user_id="u",
                    role=MessageRole.USER,
                    original_content=text,
                    timestamp=10 * number + way,
                )
                for way in range(3)
            )
            await store.store_message(first)
            await store.store_messages([second])
            await store.append_messages("c1", [third])
