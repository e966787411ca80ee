"""Each page in a browser: with no record, one and 10,000; narrow and wide; light and dark."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, BrowserContext, expect

from jazzmine import ActiveFlowState, Conversation, TurnCache
from jazzmine.core import Message, MessageStore, TurnTrace, WorkingMemoryStore
from jazzmine.records.base import snapshot
from tests.behaviour.samples import NOW, conversation, llm_call, message, trace
from tests.inspector import browser as chromium
from tests.inspector.checks import SCHEMES, low_contrasts
from tests.inspector.served import Served, served

pytestmark = pytest.mark.skipif(bool(chromium.MISSING), reason=chromium.MISSING)

SIZES = (0, 1, 10_000)
WIDTHS = (390, 1_280)

# Of every kind of page; the second list is of those of a record.
PAGES = ("/", "/?user=nobody", "/search", "/search?words=harbour", "/turns", "/usage?range=all")
OF_RECORDS = ("/conversation?id=c0", "/conversation?id=c0&oldest=1", "/turn?message=m0")
MEMORY = "/memory?id=c0"

ANSWER = """# A harbour

| ferry | leaves at |
|:--|--:|
| to Cacilhas | 10:20 |

```python
print("There is a line of code that is longer than the screen of a phone, so it is broken")
```

![A map](https://maps.example/harbour.png)
"""


async def fill(store: MessageStore, memory: WorkingMemoryStore, size: int) -> None:
    """Store so many conversations, and so many messages, each with a trace, in the first one."""
    conversations = [
        conversation(
            f"c{number}",
            title=f"Talk {number}" if number % 2 else "",
            last_updated_at=NOW - number * 60_000,
        )
        for number in range(size)
    ]
    messages = [
        message(
            f"m{number}",
            conversation_id="c0",
            role="assistant",
            original_content=ANSWER,
            timestamp=at,
        )
        for number, at in enumerate(range(NOW, NOW + size * 60_000, 60_000))
    ]
    traces = [
        trace(
            each.id,
            id=f"t{each.id}",
            conversation_id="c0",
            started_at_ms=each.timestamp,
            total_tokens=number * 1_000,
            llm_calls=[llm_call(model=f"model-{number % 60}", cost_usd=0.25)],
            errors=["The warehouse did not answer"] if number % 7 == 0 else [],
        )
        for number, each in enumerate(messages)
    ]
    await store.backend.store_many(
        [snapshot(each, Conversation) for each in conversations],
        [snapshot(each, Message) for each in messages],
        [snapshot(each, TurnTrace) for each in traces],
    )
    if size:
        await memory.get_or_create("c0", "u1", "a1")
        await memory.begin_turn("c0", TurnCache(1, raw_entities=[{"name": "Lisbon"}]))
        await memory.start_flow("c0", ActiveFlowState("f1", "A trip", "flow"))


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium.running() as browser:
        yield browser


@pytest.fixture(scope="module", params=SIZES)
async def shown(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[int, Served]]:
    """The program with stores of a size."""
    folder = tmp_path_factory.mktemp("inspector")
    path = folder / "agent.db"
    async with (
        await MessageStore.initialize({"storage": "sqlite", "path": path, "search": True}) as store,
        await WorkingMemoryStore.initialize(f"sqlite:{path}") as memory,
    ):
        await fill(store, memory, request.param)
    url = f"sqlite:{path}"
    with served(folder, "--store", url, "--memory", url) as program:
        yield request.param, program


@pytest.fixture
async def context(browser: Browser, shown: tuple[int, Served]) -> AsyncIterator[BrowserContext]:
    """A browser that has opened the address."""
    context = await browser.new_context(base_url=shown[1].base)
    page = await context.new_page()
    await page.goto(shown[1].address)
    await page.close()
    yield context
    await context.close()


async def test_each_page_fits_and_can_be_read(
    context: BrowserContext, shown: tuple[int, Served]
) -> None:
    size, _ = shown
    page = await context.new_page()
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))

    for path in (*PAGES, MEMORY, *(OF_RECORDS if size else ())):
        answer = await page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        await expect(page.locator("[data-hx-trigger=load]")).to_have_count(0)
        assert await page.locator("h1").count() == 1, path
        # The check opens details, which may be too wide. Many records have one's colours.
        for scheme in SCHEMES if size == 1 else ():
            assert await low_contrasts(page, scheme) == [], (path, scheme)
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 800})
            assert await page.evaluate("document.documentElement.scrollWidth") <= width, path
    assert problems == []
