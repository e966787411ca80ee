"""A conversation that began with one API continues with the other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.examples.places import MESSAGE_STORES
from tests.examples.serving import Served, agent_async, assert_whole, many, wsgi_app


@pytest.fixture(scope="module", params=MESSAGE_STORES)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with MESSAGE_STORES[request.param](tmp_path_factory.mktemp("store")) as address:
        yield address


@pytest.fixture(scope="module")
def apps(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Served]]:
    """Both chats, each in its own processes, on one database with both kinds of store."""
    folder = tmp_path_factory.mktemp("apps")
    environment = {"JAZZMINE_MESSAGE_STORE": url, "JAZZMINE_WORKING_MEMORY": url}
    with (
        agent_async(folder, environment) as asynchronous,
        wsgi_app(folder, environment) as synchronous,
    ):
        yield {"async": asynchronous, "sync": synchronous}


@pytest.mark.parametrize(("first", "second"), [("async", "sync"), ("sync", "async")])
def test_a_conversation_goes_back_and_forth(
    apps: dict[str, Served], url: str, first: str, second: str
) -> None:
    began, went_on = apps[first], apps[second]

    replies = [
        began.reply(f"{first} began", "How much is sencha?"),
        went_on.reply(f"{first} began", "What does it cost by the tin?"),
        began.reply(f"{first} began", "And lapsang, how much?"),
        went_on.reply(f"{first} began", "How much is it, really?"),
    ]

    assert replies == ["A tin of sencha is 14.00."] * 2 + ["We have no lapsang."] * 2
    assert_whole(url, [f"{first} began"], 4)


def test_both_at_once_take_their_turns_in_one_conversation(
    apps: dict[str, Served], url: str
) -> None:
    said = [("crowd", "ada", ["How much is assam?", "And rooibos, how much?"])] * 5

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda app: many(app, said), apps.values()))

    assert_whole(url, ["crowd"], 20)
