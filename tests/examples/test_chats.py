"""The chats under their servers: many users, concurrent requests, invalid requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.examples.serving import (
    Served,
    agent_async,
    assert_whole,
    django_project,
    many,
    stored,
    url_of,
    wsgi_app,
)
from tests.servers import postgres, redis


@pytest.fixture(scope="module", params=["async", "wsgi", "django"])
def chat(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Served, str]]:
    """A chat and the URL of its messages: in one process, or in four that share both memories."""
    folder = tmp_path_factory.mktemp(request.param)
    with ExitStack() as stack:
        if request.param == "async":
            url = f"json:{folder / 'messages.json'}"
            opened = agent_async(folder, {"JAZZMINE_MESSAGE_STORE": url})
        else:
            memory = stack.enter_context(redis.database())
            environment = {"JAZZMINE_WORKING_MEMORY": memory}
            if request.param == "wsgi":
                url = url_of(stack.enter_context(postgres.new_database()))
                environment["JAZZMINE_MESSAGE_STORE"] = url
                opened = wsgi_app(folder, environment, "--preload")
            else:
                url = f"sqlite:{folder / 'messages.db'}"
                environment["JAZZMINE_MESSAGE_STORE"] = url
                opened = django_project(folder, environment)
        yield stack.enter_context(opened), url


def test_many_users_talk_at_once_each_in_a_conversation(chat: tuple[Served, str]) -> None:
    served, url = chat
    texts = ["Hello", "How much is sencha?", "And what does it cost today?"]
    conversations = [f"c{n}" for n in range(20)]

    replies = many(served, [(each, f"user of {each}", texts) for each in conversations])

    assert all(three[2]["reply"] == "A tin of sencha is 14.00." for three in replies)
    for messages in assert_whole(url, conversations, 3):
        assert [message.original_content for message in messages[::2]] == texts


def test_ten_requests_at_once_on_one_conversation_come_one_after_another(
    chat: tuple[Served, str],
) -> None:
    served, url = chat
    said = [("ten", "ada", [f"How much is assam, for the {n}th time?"]) for n in range(10)]

    replies = many(served, said)

    assert all("A tin of assam is 9.00." in each["reply"] for [each] in replies)
    [messages] = assert_whole(url, ["ten"], 10)
    assert {m.original_content for m in messages[::2]} == {text for _, _, [text] in said}


def test_a_tea_that_the_shop_has_not_got_is_an_error_of_the_trace(chat: tuple[Served, str]) -> None:
    served, url = chat
    assert served.reply("odd", "How much is lapsang?") == "We have no lapsang."

    [trace] = stored(url, "odd")[1]
    assert trace.errors == ["no lapsang in the catalogue"]


def test_a_conversation_of_another_user_is_refused_and_empty(chat: tuple[Served, str]) -> None:
    served, url = chat
    served.reply("private", "Hello")

    assert served.say("private", "Hello", user="eve").status_code == 403
    assert served.history("private", "eve") == []
    assert len(served.history("private", "ada")) == 2
    assert_whole(url, ["private"], 1)
