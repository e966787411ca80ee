"""The sync chat under gunicorn: several workers with threads, on servers and on one file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.examples.places import MESSAGE_STORES
from tests.examples.serving import Served, assert_whole, many, wsgi_app
from tests.servers import redis


@pytest.fixture(scope="module", params=[("postgres", ["--preload"]), ("sqlite", [])], ids=str)
def place(request: pytest.FixtureRequest) -> tuple[str, list[str]]:
    """A back end, and the options of gunicorn."""
    chosen: tuple[str, list[str]] = request.param
    return chosen


@pytest.fixture(scope="module")
def url(place: tuple[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with MESSAGE_STORES[place[0]](tmp_path_factory.mktemp("chat")) as address:
        yield address


@pytest.fixture(scope="module")
def environment(url: str) -> Iterator[dict[str, str]]:
    with redis.database() as memory:
        yield {"JAZZMINE_MESSAGE_STORE": url, "JAZZMINE_WORKING_MEMORY": memory}


@pytest.fixture(scope="module")
def chat(
    place: tuple[str, list[str]],
    environment: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    with wsgi_app(tmp_path_factory.mktemp("gunicorn"), environment, *place[1]) as served:
        yield served


def test_sixteen_users_talk_at_once_each_in_a_conversation(chat: Served, url: str) -> None:
    texts = ["Hello", "How much is sencha?", "And what does it cost today?"]
    conversations = [f"c{n}" for n in range(16)]

    replies = many(chat, [(each, f"user of {each}", texts) for each in conversations])

    assert all(three[2]["reply"] == "A tin of sencha is 14.00." for three in replies)
    for messages in assert_whole(url, conversations, 3):
        assert [message.original_content for message in messages[::2]] == texts


def test_ten_requests_at_once_on_one_conversation_come_one_after_another(
    chat: Served, url: str
) -> None:
    said = [("ten", "ada", [f"How much is assam, for the {n}th time?"]) for n in range(10)]

    replies = many(chat, said)

    assert all("A tin of assam is 9.00." in each["reply"] for [each] in replies)
    [messages] = assert_whole(url, ["ten"], 10)
    assert {message.original_content for message in messages[::2]} == {
        text for _, _, [text] in said
    }


def test_a_conversation_of_another_user_is_refused_and_empty(chat: Served) -> None:
    chat.reply("private", "Hello")

    assert chat.say("private", "Hello", user="eve").status_code == 403
    assert chat.history("private", "eve") == []
    assert len(chat.history("private", "ada")) == 2
