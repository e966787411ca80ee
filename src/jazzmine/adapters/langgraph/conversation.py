"""The messages of a graph's state as a conversation that a person can read."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from jazzmine.adapters._conversations import append_with_traces, redact, retitle
from jazzmine.adapters._encoding import readable
from jazzmine.adapters._items import Described, call_text, described, role_of, text_of
from jazzmine.adapters._recorder import RunRecorder, remember, shortened
from jazzmine.adapters._steps import Steps
from jazzmine.adapters.langgraph.checkpoints import Reference, add_value, parts_of
from jazzmine.adapters.langgraph.configs import place_of, user_of
from jazzmine.adapters.langgraph.recorder import JazzmineRecorder
from jazzmine.adapters.langgraph.storage import Storage
from jazzmine.errors import IntegrityError
from jazzmine.records.messages import Conversation, Message, MessageRole

# Of how many parts of states it is known that their messages are stored.
_KNOWN = 10_000

_LOG = logging.getLogger(__name__)


class Projection:
    """Keeps a conversation beside each thread, with the messages of its states.

    A message that is new in a state is appended; one that has another content is edited.

    Attributes:
        recorder: the recorder of the runs whose messages these are.
    """

    def __init__(self, steps: Steps, agent_id: str) -> None:
        self._messages, self._agent_id = steps.store, agent_id
        self.recorder: JazzmineRecorder = JazzmineRecorder(steps, agent_id)
        # A state shares most of its parts with the one before. Only the others are looked up.
        self._known: dict[tuple[str, bytes], None] = {}

    async def add(
        self, storage: Storage, config: Any, state: Any, reference: Reference | None
    ) -> None:
        """Store what is new in a state; log what goes wrong, since the graph can go on.

        What could not be stored is stored with the next state that has it.

        Args:
            storage: the checkpoints.
            config: that of the checkpoint with the state; it names a user.
            state: the messages, if the checkpoint has them.
            reference: what refers to them; None if they were written to a delta channel.
        """
        thread, user_id = place_of(config)[0], user_of(config) or ""
        try:
            if reference is None:
                state = await storage.written(config, "messages")
                reference = add_value(storage.serde, state, {})
            parts = parts_of(state) if len(reference) > 1 else [state]
            # The last of one id, in the place of the first.
            said: dict[str, tuple[Message, Any]] = {}
            first = 0
            for part, name in zip(parts, reference, strict=True):
                if (thread, name) not in self._known:
                    for index, content in enumerate(part, first):
                        message = _message(thread, user_id, index, content)
                        said[message.id] = message, content
                first += len(part)
            if said:
                await self._store(thread, user_id, said, state)
            for name in reference:
                remember(self._known, (thread, name), None, _KNOWN)
        except Exception:
            _LOG.exception("messages of the thread %r are missing in its conversation", thread)

    async def delete(self, thread: str) -> None:
        """Delete the conversation of a thread."""
        self._known.clear()
        await self._messages.delete_conversation(thread)

    async def _store(
        self,
        thread: str,
        user_id: str,
        said: Mapping[str, tuple[Message, Any]],
        state: Sequence[Any],
    ) -> None:
        run = self.recorder.run_of(thread, user_id)
        tried: list[Message] | None = None
        while True:
            found = await self._messages.get_messages_by_ids(list(said))
            stored = {message.id: message for message in found}
            new = [message for message, _ in said.values() if message.id not in stored]
            # What is before the newest question was said in earlier runs.
            asked = [index for index, one in enumerate(new) if one.role is MessageRole.USER]
            runs = [] if run is None else [(run, new[asked[-1] if asked else 0 :])]
            if run is not None:
                await _note_answers(run, [said[message.id][1] for message in new], state)
            try:
                if new:
                    await append_with_traces(self._messages, thread, new, runs)
                break
            except IntegrityError:
                # There is no conversation, or another run has stored some of them meanwhile.
                if new == tried:
                    raise
                tried = new
                conversation = Conversation(
                    id=thread, user_id=user_id, agent_id=self._agent_id, title=_title(new)
                )
                await self._messages.get_or_create_conversation(conversation)
        edited = [
            old.model_copy(update=_content(said[name][0]))
            for name, old in stored.items()
            if _content(old) != _content(said[name][0])
        ]
        if edited:
            await self._messages.store_messages(edited)
        for message in edited:
            old = stored[message.id]
            if run is None or old.timestamp < run.measured(old.id).started_at_ms:
                await redact(self._messages, old, message)
                continue
            # A run may write its own messages in several steps, but a tool answers in one.
            await retitle(self._messages, old, message)
            run.is_redacted |= old.role is MessageRole.TOOL


async def _note_answers(run: RunRecorder, new: Sequence[Any], state: Sequence[Any]) -> None:
    """Note what a model is given for calls, which are in earlier messages if not of this run."""
    ids = set(map(id, new))
    earlier = [said for said in state if id(said) not in ids]
    for answer in new:
        call_id = getattr(answer, "tool_call_id", None)
        # A node may have called the tool itself, or a person has answered in place of a tool.
        if call_id and not await run.is_known(call_id):
            calls = (call for said in earlier for call in getattr(said, "tool_calls", None) or ())
            call = next((call for call in calls if call["id"] == call_id), None)
            if call is None:
                continue
            run.ask_tool_call(call_id, call["name"], call["args"])
        if call_id:
            failed = getattr(answer, "status", "") == "error"
            run.answer_tool_call(call_id, answer.content, is_error=failed)


def _content(message: Message) -> dict[str, Any]:
    """Return what a graph says in a message."""
    return {
        "role": message.role,
        "original_content": message.original_content,
        "invoked_tools": message.invoked_tools,
    }


def _message(thread: str, user_id: str, index: int, said: Any) -> Message:
    fields = said if isinstance(said, dict) else vars(said) if hasattr(said, "__dict__") else {}
    if isinstance(said, str):
        fields = {"role": "user", "content": said}
    elif isinstance(said, list | tuple) and len(said) == 2:
        fields = {"role": said[0], "content": said[1]}
    about = described(_described, fields or {"content": said})
    own_id = fields.get("id")
    if not own_id:
        # A state without the reducer of messages gives them no ids.
        text = f"{about.role.value}:{about.text}"
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        own_id = f"{index}:{digest}"
    return Message(
        # Another thread's messages have other ids.
        id=f"{thread.replace('%', '%25').replace('/', '%2F')}/{readable(str(own_id))}",
        conversation_id=thread,
        user_id=user_id,
        role=about.role,
        original_content=readable(about.text),
        invoked_tools=[readable(name) for name in about.tools] or None,
    )


def _described(fields: dict[str, Any]) -> Described:
    # A message of a chat, and an item of the Responses API, say in `role` whose it is.
    role = role_of(fields.get("role")) or role_of(fields.get("type"))
    # What no user has typed, such as a summary, is marked.
    if role is MessageRole.USER and "lc_source" in (fields.get("additional_kwargs") or {}):
        role = MessageRole.SYSTEM
    given = fields.get("tool_calls") or []
    calls = [call for call in given if isinstance(call, dict) and "name" in call]
    text = text_of(fields.get("content"))
    text = text or "\n".join(call_text(call["name"], call.get("args")) for call in calls)
    return Described(role or MessageRole.ASSISTANT, text, [str(call["name"]) for call in calls])


def _title(messages: Sequence[Message]) -> str:
    texts = (said.original_content for said in messages if said.role is MessageRole.USER)
    return shortened(next(texts, ""))
