"""The async chat under uvicorn: many users, concurrent requests, invalid requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.serving import Served, agent_async, assert_whole, many, stored


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("agent")


@pytest.fixture(scope="module")
def url(folder: Path) -> str:
    return f"json:{folder / 'messages.json'}"


@pytest.fixture(scope="module")
def chat(folder: Path, url: str) -> Iterator[Served]:
    with agent_async(folder, {"JAZZMINE_MESSAGE_STORE": url}) as served:
        yield served


def test_fifty_users_talk_at_once_each_in_a_conversation(chat: Served, url: str) -> None:
    texts = ["Hello", "How much is sencha?", "And what does it cost today?"]

    replies = many(chat, [(f"fifty-{n}", f"user-{n}", texts) for n in range(50)])

    assert all(three[2]["reply"] == "A tin of sencha is 14.00." for three in replies)
    conversations = assert_whole(url, [f"fifty-{n}" for n in range(50)], 3)
    assert all([m.original_content for m in each[::2]] == texts for each in conversations)


def test_ten_requests_at_once_on_one_conversation_come_one_after_another(
    chat: Served, url: str
) -> None:
    said = [("ten", "ada", [f"How much is assam, for the {n}th time?"]) for n in range(10)]

    replies = many(chat, said)

    assert all("A tin of assam is 9.00." in each["reply"] for [each] in replies)
    [messages] = assert_whole(url, ["ten"], 10)
    assert {m.original_content for m in messages[::2]} == {text for _, _, [text] in said}


def test_a_tea_that_the_shop_has_not_got_is_an_error_of_the_trace(chat: Served, url: str) -> None:
    assert chat.reply("odd", "How much is lapsang?") == "We have no lapsang."

    [trace] = stored(url, "odd")[1]
    assert trace.errors == ["no lapsang in the catalogue"]


def test_a_conversation_of_another_user_is_refused_and_empty(chat: Served, url: str) -> None:
    chat.reply("private", "Hello")

    assert chat.say("private", "Hello", user="eve").status_code == 403
    assert chat.history("private", "eve") == []
    assert len(chat.history("private", "ada")) == 2
    assert_whole(url, ["private"], 1)
