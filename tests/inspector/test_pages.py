"""What the pages show."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from jazzmine.core import MessageRole, MessageStore, ToolCallRecord
from jazzmine.encryption import Keyring
from jazzmine.errors import StoreUnavailableError
from jazzmine.inspector.filters import days_ago
from jazzmine.inspector.threads import PAGE
from tests.behaviour.samples import NOW, conversation, llm_call, message, messages, trace
from tests.inspector.conftest import Site, opened

AS_PART = {"HX-Request": "true"}


def links(text: str, path: str) -> list[str]:
    """The links of a page that begin with a path; they are relative."""
    found = (unescape(link) for link in re.findall(r'href="\.(/[^"]*)"', text))
    return [link for link in found if link.startswith(path)]


# Conversations


async def test_conversations_are_listed_newest_first(site: Site) -> None:
    listed = links(await site.text("/"), "/conversation?")
    ids = ("c2", "c%2F3+%3F%26%23%25", "c1")
    assert listed == [f"/conversation?id={each}#end" for each in ids]


@pytest.mark.parametrize(
    ("some_id", "place"),
    [
        ("c/3 ?&#%", "/conversation?id=c%2F3+%3F%26%23%25#end"),
        ("m2", "/turn?message=m2"),
        ("trace-of-in-c2", "/turn?message=in-c2"),
    ],
)
async def test_an_id_leads_to_its_page(site: Site, some_id: str, place: str) -> None:
    if some_id.startswith("trace"):
        found = await site.store.get_turn_trace_by_message_id("in-c2")
        assert found is not None
        some_id = found.id
    answer = await site.client.get("/", params={"id": some_id})
    assert answer.headers["location"] == f".{place}"
    assert (await site.client.get(place)).status_code == 200


async def test_pages_follow_one_another_without_a_gap(site: Site) -> None:
    for number in range(120):
        await site.store.store_conversation(
            conversation(f"n{number}", user_id="many", agent_id=f"b{number % 2}")
        )
    for asked, expected in (({"user": "many"}, 120), ({}, 123), ({"agent": "b1"}, 60)):
        found: list[str] = []
        text = await site.text("/", **asked)
        while True:
            found += links(text, "/conversation?")
            further = [each for each in links(text, "/?") if "after=" in each]
            if not further:
                break
            text = await site.text(further[0])
        assert len(found) == len(set(found)) == expected
    both = links(await site.text("/", user="many", agent="b1"), "/conversation?")
    assert len(both) == 50


async def test_messages_are_counted_without_traces_and_with_flagged_ones(site: Site) -> None:
    listed = await site.text("/", agent="a1")
    assert re.findall(r"(\d+ messages?)\b", listed) == ["3 messages"]
    assert "3 messages ·" in await site.text("/conversation", id="c1")
    assert "0 messages ·" in await site.text("/conversation", id="c/3 ?&#%")


async def test_the_pages_say_what_turns_cost(site: Site) -> None:
    calls = [llm_call(cost_usd=0.25), llm_call(cost_usd=0.5), llm_call(cost_usd=None)]
    turn = trace("in-c2", conversation_id="c2", agent_id="a2", llm_calls=calls, total_tokens=9)
    await site.store.store_turn_trace(turn)
    assert "≥ 9 tokens · ≥ $0.75 · 3 model calls" in await site.text("/conversation", id="c2")
    shown = await site.text("/turn", message="in-c2")
    assert "<dt>Cost</dt><dd>≥ $0.75</dd>" in shown
    assert 'data-label="Cost">≥ $0.75</td>' in await site.text("/turns", agent="a2")
    usage = await site.text("/usage", agent="a2")
    assert "<dt>Cost</dt><dd>≥ $0.75</dd>" in usage
    assert usage.count('<td class="num">≥ $0.75</td>') == 4


async def test_a_failed_call_marks_its_turn(site: Site) -> None:
    calls = [llm_call(success=False, error="too many requests", input={"asked": 1}, output=None)]
    turn = trace("in-c2", conversation_id="c2", agent_id="a2", llm_calls=calls)
    await site.store.store_turn_trace(turn)
    assert "1 error" in await site.text("/conversation", id="c2")
    assert "too many requests" in await site.text("/turns", agent="a2")
    shown = await site.text("/turn", message="in-c2")
    assert "too many requests" in shown
    assert "&#34;asked&#34;: 1" in shown


async def test_the_markdown_of_an_answer_is_rendered_beside_its_source(site: Site) -> None:
    written = "# One\n\n## Two\n\n**bold** <b>no</b>\n\n| a | b |\n|:--|--:|\n| 1 | 2 |\n\n[x](https://x.example)"
    hostile = "[y](javascript:alert(1)) ![z](https://z.example/z.png) [w](data:text/html,x)"
    await site.store.store_message(
        message("md", role=MessageRole.ASSISTANT, original_content=f"{written}\n{hostile}")
    )
    text = await site.text("/conversation", id="c1")
    rendered = text[text.index('<div class="markdown"') :].partition("</div>")[0]
    for part in ("<h3>One", "<h4>Two", "<strong>bold", "&lt;b&gt;no&lt;/b&gt;", "<td>2</td>"):
        assert part in rendered
    assert re.findall(r'href="([^"]*)"', rendered) == [
        "https://x.example",
        "https://z.example/z.png",
    ]
    assert ">z</a>" in rendered
    assert "<img" not in rendered
    assert "style=" not in rendered
    assert "**bold**" in text


# A conversation


async def test_a_thread_shows_its_messages_flags_entities_and_tool_calls(site: Site) -> None:
    text = await site.text("/conversation", id="c1")
    shown = re.findall(r'<article class="message ([^"]*)" id="m-([^"]*)"', text)
    assert shown == [("user", "m1"), ("assistant flagged", "m2"), ("user flagged", "m3")]
    full = await site.store.get_turn_trace_by_message_id("m2")
    assert full is not None
    assert text.count('<details class="tool">') == len(full.tool_traces) > 0
    assert 'class="chip entity"' in text
    assert 'data-hx-get="./turn?message=m2"' in text


@pytest.fixture
async def long(site: Site) -> list[str]:
    """The ids of the 950 messages of a conversation, all flagged, one with a trace."""
    await site.store.store_conversation(conversation("long"))
    ids = [f"l{number:04}" for number in range(950)]
    await site.store.store_messages(
        message(each, conversation_id="long", is_flagged=True, timestamp=NOW + number // 2)
        for number, each in enumerate(ids)
    )
    turn = trace("l0150", conversation_id="long", turn_number=9, started_at_ms=NOW)
    await site.store.store_turn_trace(turn)
    return ids


def shown_in(page: str) -> list[str]:
    """The ids of the messages of a page."""
    return re.findall(r'<article [^>]*id="m-([^"]*)"', page)


async def test_a_long_thread_opens_at_its_newest_messages(site: Site, long: list[str]) -> None:
    page = await site.text("/conversation", id="long")
    assert shown_in(page) == long[-PAGE:]
    middle = await site.text("/conversation", id="long", at="l0500")
    assert shown_in(middle) == long[500 - PAGE // 2 : 501 + PAGE // 2]
    assert "950 messages" in page
    assert f"{PAGE} of 950" in page
    assert "every 2s" in page


@pytest.mark.parametrize(("start", "rel"), [("", "prev"), ("&oldest=1", "next")])
async def test_a_long_thread_is_read_in_both_directions(
    site: Site, long: list[str], start: str, rel: str
) -> None:
    page = await site.text(f"/conversation?id=long{start}")
    pages = [shown_in(page)]
    while links_on := re.findall(rf'href="([^"#]*)[^"]*" rel="{rel}"', page):
        page = await site.text(unescape(links_on[0]))
        pages.append(shown_in(page))
    in_order = pages if rel == "next" else pages[::-1]
    assert [each for ids in in_order for each in ids] == long
    assert ("every 2s" in page) == (rel == "next")


@pytest.mark.parametrize("known", ["c2", "empty"])
async def test_an_open_thread_is_given_what_was_stored_since(site: Site, known: str) -> None:
    await site.store.store_conversation(conversation("empty"))
    text = await site.text("/conversation", id=known)
    (poll,) = (each for each in re.findall(r'data-hx-get="([^"]*)"', text) if "/new?" in each)
    poll = unescape(poll)
    assert (await site.client.get(poll)).status_code == 204
    new = messages("n1", "n2", conversation_id=known, timestamp=NOW + 50)
    await site.store.store_messages(new)
    part = await site.text(poll)
    await site.store.delete_conversation(known)
    assert (await site.client.get(poll)).headers["HX-Refresh"] == "true"
    await site.store.store_turn(conversation=conversation(known), messages=new)
    assert re.findall(r'id="m-([^"]*)"', part) == ["n1", "n2"]
    assert "<html" not in part
    (following,) = re.findall(r'data-hx-get="([^"]*/new[^"]*)"', part)
    assert (await site.client.get(unescape(following))).status_code == 204


async def test_the_working_memory_is_shown_as_it_is(site: Site) -> None:
    text = await site.text("/memory", id="c1")
    for part in ("awaiting confirmation", "flow &lt;script", "pickup", "pay &lt;script", "entity "):
        assert part in text
    assert "expires in turn 4" in text
    (poll,) = map(unescape, re.findall(r'data-hx-get="([^"]*)"', text))
    assert (await site.client.get(poll, headers=AS_PART)).status_code == 204
    await site.memory.set_data("c1", seen=True)
    assert (await site.client.get(poll, headers=AS_PART)).text.startswith('<div class="memory"')


async def test_the_working_memory_shows_what_is_set_aside_and_why_a_call_failed(site: Site) -> None:
    await site.memory.suspend_flow("c1")
    await site.memory.set_data("c1", cart="sencha")
    failed = ToolCallRecord("pay", {}, result_summary="paid", success=False, error="no funds")
    await site.memory.record_tool_call("c1", failed)

    text, _ = (await site.text("/memory", id="c1")).split("All of it")

    assert re.search("Set aside.*flow .*awaiting confirmation.*sencha", text, re.DOTALL)
    assert "no funds" in text
    assert "paid" not in text


async def test_a_working_memory_that_fails_is_told_on_its_part_of_the_page(site: Site) -> None:
    await site.memory.close()
    assert "It cannot be read" in await site.text("/memory", id="c1")
    assert (await site.client.get("/conversation", params={"id": "c1"})).status_code == 200


# Turns and usage


async def test_a_turn_is_a_timeline_of_its_calls(site: Site) -> None:
    text = await site.text("/turn", message="m2")
    full = await site.store.get_turn_trace_by_message_id("m2")
    assert full is not None
    assert text.count('<li class="model">') == len(full.llm_calls)
    assert text.count('<li class="task">') == len(full.tool_traces)
    assert "broken &lt;script" in text
    assert "attempt 1" in text
    part = await site.client.get("/turn", params={"message": "m2"}, headers=AS_PART)
    assert '<li class="model">' in part.text
    assert "<html" not in part.text


async def test_turns_are_filtered_by_the_address(site: Site) -> None:
    assert len(links(await site.text("/turns"), "/turn?")) == 2
    assert links(await site.text("/turns", agent="a2"), "/turn?") == ["/turn?message=in-c2"]
    assert links(await site.text("/turns", errors="yes"), "/turn?") == ["/turn?message=m2"]
    assert links(await site.text("/turns", until="1990-01-01"), "/turn?") == []
    assert "(2026-01-01) is before" in await site.text(
        "/turns", 400, since="2026-01-02", until="2026-01-01"
    )
    assert "not “today”" in await site.text("/turns", 400, since="today")


async def test_usage_has_charts_of_day_model_agent_and_intent(site: Site) -> None:
    text = await site.text("/usage", range="all")
    assert re.findall(r'<h2 id="by-(\w+)"', text) == ["day", "model", "agent", "intent"]
    assert '<svg class="columns"' in text
    answer = await site.client.get("/usage")
    assert answer.headers["location"] == f"./usage?since={days_ago(30)}"
    narrowed = await site.text("/usage", agent="a2")
    assert "<dd>70</dd>" in narrowed
    assert 'name="agent" value="a2"' in narrowed


# Problems


@pytest.mark.parametrize(
    "path",
    ["/conversation?id=none", "/conversation", "/turn?message=none", "/nowhere", "/?after=x"],
)
async def test_what_is_not_there_is_not_found(site: Site, path: str) -> None:
    assert "Not found" in await site.text(path, 404)


async def test_a_store_that_cannot_be_reached_is_told(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailableError("the server did not answer within 30 s")

    monkeypatch.setattr(site.store.backend, "find_traces", fail)
    text = await site.text("/turns", 503, agent="a1")
    assert "did not answer within 30 s" in text
    assert 'href="./turns?agent=a1"' in text


async def test_a_store_whose_keys_are_not_set_is_told_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "messages.db"
    config = {"storage": "sqlite", "path": path, "encryption": Keyring({"k1": bytes(32)})}
    async with await MessageStore.initialize(config) as store:
        await store.store_conversation(conversation("c1"))
    async with await MessageStore.initialize(path) as store, opened(store, None) as site:
        for page in ("/", "/conversation?id=c1"):  # the server is told of no error
            assert "set JAZZMINE_ENCRYPTION" in await site.text(page, 500)


async def test_working_memory_may_be_missing(tmp_path: Path) -> None:
    async with (
        await MessageStore.initialize(f"sqlite:{tmp_path / 'm.db'}") as store,
        opened(store, None) as site,
    ):
        await store.store_conversation(conversation("c1"))
        assert "working memory in" not in await site.text("/conversation", id="c1")
        assert "None was named" in await site.text("/memory", id="c1")


# Search


async def test_a_store_without_an_index_says_how_to_add_it_once_words_are_given(site: Site) -> None:
    said = [("jazzmine index" in await site.text("/search", words=words)) for words in ("", "tea")]
    assert said == [False, True]


async def test_found_messages_are_marked_and_lead_to_their_place(tmp_path: Path) -> None:
    config = {"storage": "sqlite", "path": tmp_path / "messages.db", "search": True}
    async with await MessageStore.initialize(config) as store:
        await store.store_conversation(conversation("c1"))
        text = f"{'before ' * 40}<b>Lost</b> luggage{' after' * 90}"
        await store.store_messages([message("m1", original_content=text), message("m2")])
        async with opened(store, None) as site:
            found = await site.text("/search", words="luggage lost", user="u1")
            of_another = await site.text("/search", words="luggage", user="u2")
            of_signs = await site.text("/search", words="\U0001f600")

    assert links(found, "/conversation?") == ["/conversation?id=c1&at=m1#m-m1"]
    assert "&lt;b&gt;<mark>Lost</mark>&lt;/b&gt; <mark>luggage</mark> after" in found
    assert found.count("…") == 2
    assert "No message has these words" in of_another
    assert "Signs and emojis are no words" in of_signs
