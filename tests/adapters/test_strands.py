"""Sessions of Strands Agents, as its own tests expect of its own stores, and more."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strands import Agent
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.multiagent import GraphBuilder
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from jazzmine.adapters.strands import JazzmineSessionRepository
from jazzmine.core import MessageStore as AsyncMessageStore
from jazzmine.sync import MessageStore
from tests.adapters.processes import run_together
from tests.adapters.strands_program import ScriptedModel, agent
from tests.behaviour.backends import Config

PROGRAM = "tests.adapters.strands_program"


@pytest.fixture
def repository(sync_store: MessageStore) -> JazzmineSessionRepository:
    return JazzmineSessionRepository(sync_store, user_id="u1", agent_id="a1")


@pytest.fixture
def session(repository: JazzmineSessionRepository) -> Session:
    """A stored session `s1` with an agent `guide`."""
    session = repository.create_session(Session(session_id="s1", session_type=SessionType.AGENT))
    repository.create_agent("s1", state())
    return session


def state(agent_id: str = "guide", **values: Any) -> SessionAgent:
    return SessionAgent(agent_id=agent_id, state=values, conversation_manager_state={"n": 1})


def said(text: str, index: int) -> SessionMessage:
    return SessionMessage.from_message({"role": "user", "content": [{"text": text}]}, index)


def ids(messages: list[SessionMessage]) -> list[int]:
    return [message.message_id for message in messages]


# Sessions


def test_a_session_comes_back_equal(repository: JazzmineSessionRepository) -> None:
    session = Session(session_id="s1", session_type=SessionType.AGENT)

    assert repository.create_session(session) == session
    assert repository.read_session("s1") == session


def test_what_is_missing_is_none(repository: JazzmineSessionRepository, session: Session) -> None:
    assert repository.read_session("other") is None
    assert repository.read_agent("s1", "other") is None
    assert repository.read_agent("other", "guide") is None
    assert repository.read_message("s1", "guide", 999) is None
    assert repository.read_message("s1", "other", 0) is None
    assert repository.read_multi_agent("s1", "other") is None
    assert repository.list_messages("s1", "guide") == []


def test_a_session_is_created_once(repository: JazzmineSessionRepository, session: Session) -> None:
    with pytest.raises(SessionException, match="already exists"):
        repository.create_session(session)
    assert repository.read_session("s1") == session


def test_of_creations_at_once_one_succeeds(repository: JazzmineSessionRepository) -> None:
    def create(number: int) -> bool:
        try:
            repository.create_session(Session(session_id="s1", session_type=SessionType.AGENT))
        except SessionException:
            return False
        return True

    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(create, range(6))) == 1


def test_a_deleted_session_leaves_nothing(
    repository: JazzmineSessionRepository, session: Session, sync_store: MessageStore
) -> None:
    repository.create_message("s1", "guide", said("secret", 0))

    repository.delete_session("s1")

    assert repository.read_session("s1") is None
    assert repository.read_agent("s1", "guide") is None
    assert repository.list_messages("s1", "guide") == []
    assert sync_store.get_conversations_by_user_id("u1") == []
    with pytest.raises(SessionException, match="does not exist"):
        repository.delete_session("s1")


@pytest.mark.parametrize("bad", ["a/../b", "a/b", "a\\b"])
def test_ids_with_separators_are_a_value_error(
    repository: JazzmineSessionRepository, bad: str
) -> None:
    with pytest.raises(ValueError, match="path separators"):
        repository.read_session(bad)
    with pytest.raises(ValueError, match="path separators"):
        repository.read_agent("s1", bad)
    with pytest.raises(ValueError, match="path separators"):
        repository.read_multi_agent("s1", bad)


@pytest.mark.parametrize("missing", ["", None])
def test_missing_ids_are_a_value_error(
    repository: JazzmineSessionRepository, sync_store: MessageStore, missing: Any
) -> None:
    with pytest.raises(ValueError, match="session_id is missing"):
        repository.read_session(missing)
    with pytest.raises(ValueError, match="agent_id is missing"):
        repository.read_agent("s1", missing)
    with pytest.raises(ValueError, match="user_id is missing"):
        JazzmineSessionRepository(sync_store, user_id=missing, agent_id="a1")


def test_an_async_store_is_a_type_error(store: AsyncMessageStore) -> None:
    with pytest.raises(TypeError, match=r"jazzmine\.sync"):
        JazzmineSessionRepository(store, user_id="u1", agent_id="a1")  # type: ignore[arg-type]


# Agents


def test_an_agent_comes_back_equal(repository: JazzmineSessionRepository, session: Session) -> None:
    stored = state("other", text="\x00 \ud800", raw=b"\xff", huge=2**70)
    stored._internal_state = {"interrupt_state": {"interrupts": {}}}
    repository.create_agent("s1", stored)

    assert repository.read_agent("s1", "other") == stored


def test_an_updated_agent_keeps_its_time_of_creation(
    repository: JazzmineSessionRepository, session: Session
) -> None:
    before = repository.read_agent("s1", "guide")
    assert before is not None
    new = state(mood="good")
    new.created_at = "later"
    repository.update_agent("s1", new)

    after = repository.read_agent("s1", "guide")
    assert after is not None
    assert after.state == {"mood": "good"}
    assert after.created_at == new.created_at == before.created_at


def test_updates_of_what_is_missing_raise(
    repository: JazzmineSessionRepository, session: Session
) -> None:
    with pytest.raises(SessionException, match="does not exist"):
        repository.update_agent("s1", state("other"))
    with pytest.raises(SessionException, match="does not exist"):
        repository.update_message("s1", "guide", said("one", 0))
    with pytest.raises(SessionException, match="does not exist"):
        repository.create_agent("other", state())
    with pytest.raises(SessionException, match="does not exist"):
        repository.create_message("s1", "other", said("one", 0))


# Messages


def test_messages_are_listed_from_the_oldest(
    repository: JazzmineSessionRepository, session: Session
) -> None:
    for index in range(10):
        repository.create_message("s1", "guide", said(str(index), index))

    def listed(**page: Any) -> list[int]:
        return ids(repository.list_messages("s1", "guide", **page))

    assert listed() == list(range(10))
    assert listed(limit=3) == [0, 1, 2]
    assert listed(offset=5) == [5, 6, 7, 8, 9]
    assert listed(limit=2, offset=7) == [7, 8]
    assert listed(limit=0) == []
    assert listed(offset=20) == []


def test_message_ids_are_those_of_an_agent_of_a_session(
    repository: JazzmineSessionRepository, session: Session
) -> None:
    repository.create_agent("s1", state("other"))
    repository.create_session(Session(session_id="s2", session_type=SessionType.AGENT))
    repository.create_agent("s2", state())
    places = [("s1", "guide"), ("s1", "other"), ("s2", "guide")]
    for place in places:
        repository.create_message(*place, said("-".join(place), 0))

    for place in places:
        message = repository.read_message(*place, 0)
        assert message is not None
        assert message.message["content"] == [{"text": "-".join(place)}]


@pytest.mark.parametrize("bad", ["../../secret", "not_an_int", None, []])
def test_a_message_id_is_an_integer(
    repository: JazzmineSessionRepository, session: Session, bad: Any
) -> None:
    with pytest.raises(ValueError, match="message id must be an integer"):
        repository.read_message("s1", "guide", bad)


def test_a_message_stored_twice_is_there_once(
    repository: JazzmineSessionRepository, session: Session
) -> None:
    message = said("one", 0)
    repository.create_message("s1", "guide", message)
    repository.create_message("s1", "guide", message)

    assert repository.list_messages("s1", "guide") == [message]


def test_a_message_id_in_use_is_replaced_by_the_next(
    repository: JazzmineSessionRepository, session: Session
) -> None:
    late = said("late", 0)
    repository.create_message("s1", "guide", said("one", 0))
    repository.create_message("s1", "guide", late)

    assert late.message_id == 1
    assert [
        one.message["content"][0]["text"] for one in repository.list_messages("s1", "guide")
    ] == [
        "one",
        "late",
    ]


def test_a_redacted_message_is_read_redacted(
    repository: JazzmineSessionRepository, session: Session, sync_store: MessageStore
) -> None:
    repository.create_message("s1", "guide", said("secret", 0))
    message = repository.read_message("s1", "guide", 0)
    assert message is not None
    created_at, message.created_at = message.created_at, "later"
    message.redact_message = {"role": "user", "content": [{"text": "[redacted]"}]}
    repository.update_message("s1", "guide", message)

    found = repository.read_message("s1", "guide", 0)
    assert found == message
    assert found.created_at == created_at
    assert found.message["content"] == [{"text": "secret"}]
    assert found.to_message()["content"] == [{"text": "[redacted]"}]
    (shown,) = sync_store.get_immediate_context("s1/guide", 5)
    assert shown.original_content == "[redacted]"


@pytest.mark.parametrize(
    "content",
    [
        [{"image": {"format": "png", "source": {"bytes": b"\x00\xff"}}}],
        [{"text": "lone \ud800 and \x00"}],
        [{"text": "x" * 1_000_000}],
        [{"toolUse": {"toolUseId": "k", "name": "f", "input": {"n": 2**70, "x": math.inf}}}],
        [{"toolResult": {"toolUseId": "k", "status": "success", "content": [{"json": [None]}]}}],
        [{"toolResult": {"content": [{"json": {"__bytes_encoded__": True, "data": "no"}}]}}],
        [{"unknown": {"to": ["everybody", (1, 2)]}}],
        [],
    ],
    ids=lambda content: f"{content!r:.40}",
)
def test_any_message_comes_back_equal(
    repository: JazzmineSessionRepository, session: Session, content: Any
) -> None:
    message = SessionMessage.from_message(
        {"role": "user", "content": content, "tracking_id": "t", "more": 1},  # type: ignore[typeddict-unknown-key]
        0,
    )
    repository.create_message("s1", "guide", message)

    assert repository.list_messages("s1", "guide") == [message]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
    | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(content=st.lists(st.dictionaries(st.text(), values, max_size=2), max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_generated_messages_come_back_equal(
    repository: JazzmineSessionRepository, content: Any
) -> None:
    if repository.read_session("s1") is None:
        repository.create_session(Session(session_id="s1", session_type=SessionType.AGENT))
        repository.create_agent("s1", state())
    message = SessionMessage.from_message({"role": "user", "content": content}, 0)
    repository.create_message("s1", "guide", message)

    assert repository.read_message("s1", "guide", message.message_id) == message


def test_a_person_can_read_the_conversation(
    repository: JazzmineSessionRepository, sync_store: MessageStore
) -> None:
    agent(repository)[0]("Rain?")

    shown = sync_store.get_immediate_context("s1/guide", 10)

    assert [(one.role.value, one.original_content) for one in shown] == [
        ("user", "Rain?"),
        ("assistant", 'weather({"city":"Lisbon"})'),
        ("tool", "rain in Lisbon"),
        ("assistant", "It rains."),
    ]
    assert shown[1].invoked_tools == ["weather"]
    assert {one.user_id for one in shown} == {"u1"}
    (of_session,) = sync_store.get_immediate_context("s1", 10)
    assert of_session.original_content == "[state of guide]"


# The framework's own loop


def test_an_agent_remembers_its_turns(repository: JazzmineSessionRepository) -> None:
    guide, model = agent(repository, state={"visits": 1})
    guide("Rain?")
    guide.state.set("visits", 2)
    guide("And now?")

    again, other_model = agent(repository)
    again("Still?")

    assert again.state.get("visits") == 2
    assert len(model.inputs[-1]) == 7
    assert [one["role"] for one in other_model.inputs[0]] == ["user", "assistant"] * 4 + ["user"]
    assert len(repository.list_messages("s1", "guide")) == 12


def test_a_window_is_restored(repository: JazzmineSessionRepository) -> None:
    window = SlidingWindowConversationManager(window_size=4)
    guide, _ = agent(repository, conversation_manager=window)
    for _ in range(3):
        guide("Rain?")

    again, _ = agent(repository, conversation_manager=SlidingWindowConversationManager(4))

    assert [one["role"] for one in again.messages] == [one["role"] for one in guide.messages]
    assert again.messages[-1]["content"] == guide.messages[-1]["content"]


def test_the_latest_message_is_redacted(repository: JazzmineSessionRepository) -> None:
    guide, _ = agent(repository)
    guide("Rain?")
    manager = guide._session_manager
    assert isinstance(manager, RepositorySessionManager)
    manager.redact_latest_message({"role": "assistant", "content": [{"text": "No."}]}, guide)

    again, _ = agent(repository)

    assert again.messages[-1]["content"] == [{"text": "No."}]


def test_a_graph_of_agents_goes_on(repository: JazzmineSessionRepository) -> None:
    def graph() -> Any:
        builder = GraphBuilder()
        builder.add_node(Agent(model=ScriptedModel(), callback_handler=None, name="n"), "n")
        builder.set_graph_id("g1")
        builder.set_max_node_executions(3)
        builder.set_session_manager(RepositorySessionManager("s1", repository))
        return builder.build()

    graph()
    stored = repository.read_multi_agent("s1", "g1")
    assert stored is not None
    assert stored["id"] == "g1"
    again = graph()
    again.task = "go"
    repository.update_multi_agent("s1", again)
    assert repository.read_multi_agent("s1", "g1") == again.serialize_state()

    again.id = "g2"
    with pytest.raises(SessionException, match="does not exist"):
        repository.update_multi_agent("s1", again)


# Several processes


def test_a_second_process_goes_on(shared_config: Config) -> None:
    run_together(PROGRAM, shared_config, ("turn", "Rain?"))
    (printed,) = run_together(PROGRAM, shared_config, ("turn", "And now?"))

    assert printed.count('"toolUse"') == 2
    assert printed.index("Rain?") < printed.index("It rains.") < printed.index("And now?")


def test_messages_of_four_processes_are_all_kept(shared_config: Config) -> None:
    with MessageStore.initialize(shared_config) as store:
        repository = JazzmineSessionRepository(store, user_id="u1", agent_id="a1")
        agent(repository)
        run_together(PROGRAM, shared_config, *(("add", name, "50") for name in "abcd"))
        found = repository.list_messages("s1", "guide")

    added = [message.message["content"][0]["text"] for message in found]
    assert len(set(added)) == len(added) == 400
    assert ids(found) == list(range(400))
    for name in "abcd":
        assert [one for one in added if one[0] == name] == [
            f"{name} {number} {half}" for number in range(50) for half in (0, 1)
        ]
