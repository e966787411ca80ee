"""The pages in a real browser: policies, keyboard, widths, colours, and what follows by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect

from jazzmine.core import MessageStore, WorkingMemoryStore
from tests.behaviour.samples import NOW, conversation, message
from tests.inspector import browser as chromium
from tests.inspector.conftest import fill
from tests.inspector.served import Served, served

pytestmark = pytest.mark.skipif(bool(chromium.MISSING), reason=chromium.MISSING)

PATHS = (
    "/",
    "/?user=nobody",
    "/search?words=harbour",
    "/conversation?id=c1",
    "/turn?message=m2",
    "/turns",
    "/usage?range=all",
    "/memory?id=c1",
)


@pytest.fixture(scope="module")
async def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of messages and working memory."""
    path = tmp_path_factory.mktemp("inspector") / "agent.db"
    async with (
        await MessageStore.initialize(f"sqlite:{path}") as store,
        await WorkingMemoryStore.initialize(f"sqlite:{path}") as memory,
    ):
        await fill(store, memory)
    return path


@pytest.fixture(scope="module")
def program(filled: Path) -> Iterator[Served]:
    """The program, which all tests share."""
    url = f"sqlite:{filled}"
    with served(filled.parent, "--store", url, "--memory", url) as program:
        yield program


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium.running() as browser:
        yield browser


@pytest.fixture(scope="module")
async def context(browser: Browser, program: Served) -> AsyncIterator[BrowserContext]:
    """A browser that has opened the address: it may change its settings. All tests share it."""
    context = await browser.new_context(base_url=program.base)
    page = await context.new_page()
    await page.goto(program.address)
    await page.close()
    yield context
    await context.close()


@pytest.fixture
async def page(context: BrowserContext) -> AsyncIterator[Page]:
    """A page; the test fails if the browser reported an error or a refused part."""
    page = await context.new_page()
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(f"a dialog: {dialog.message}"))
    yield page
    await page.close()
    assert problems == []


async def open_whole(page: Page, path: str) -> None:
    """Open a page, and wait for the part that it loads by itself."""
    await page.goto(path)
    await expect(page.locator("[data-hx-trigger=load]")).to_have_count(0)


async def test_the_policy_stops_what_would_slip_through(context: BrowserContext) -> None:
    page = await context.new_page()
    refused: list[str] = []
    page.on("console", lambda said: refused.append(said.text))
    await page.goto("/")
    await page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
            document.body.setAttribute("onclick", "window.ran = true");
            document.body.click();
        }"""
    )
    assert await page.evaluate("window.ran") is None
    assert any("Content Security Policy" in each for each in refused)
    await page.close()


# What happens without loading a page


async def test_an_open_thread_follows_new_messages_and_working_memory(
    page: Page, filled: Path
) -> None:
    url = f"sqlite:{filled}"
    async with (
        await MessageStore.initialize(url) as store,
        await WorkingMemoryStore.initialize(url) as memory,
    ):
        await store.store_conversation(conversation("live"))
        await memory.get_or_create("live", "u1", "a1")
        await page.goto("/conversation?id=live")
        await expect(page.locator(".memory")).to_contain_text("idle")
        for number in range(3):
            new = message(
                f"live{number}",
                conversation_id="live",
                original_content=f"new {number} <b>not bold</b>",
                timestamp=NOW + number,
            )
            await store.store_message(new)
            await expect(page.locator("article")).to_have_count(number + 1, timeout=20_000)
        await expect(page.locator("article").last).to_contain_text("new 2 <b>not bold</b>")
        await expect(page.locator(".follow")).to_have_count(1)

        def fails(wm: Any) -> None:
            wm.status = "error"

        async with memory.locked("live") as wm:
            fails(wm)
        await expect(page.locator(".memory")).to_contain_text("error", timeout=20_000)


async def test_an_open_thread_says_that_nothing_can_be_read(
    context: BrowserContext,
) -> None:
    page = await context.new_page()
    end, asked = page.locator("#end"), "**/conversation/new?*"
    await page.goto("/conversation?id=c1")
    await expect(end).to_have_text("New messages appear here.")
    await page.route(asked, lambda route: route.fulfill(status=503))
    await expect(end).to_contain_text("not available now", timeout=20_000)
    await page.unroute(asked)
    await expect(end).to_have_text("New messages appear here.", timeout=20_000)
    await page.route(asked, lambda route: route.abort())
    await expect(end).to_contain_text("has ended", timeout=20_000)
    await page.close()


async def test_the_timeline_of_an_answer_is_loaded_when_it_is_opened(page: Page) -> None:
    await page.goto("/conversation?id=c1")
    trace = page.locator("details.trace")
    await expect(trace.locator(".timeline")).to_have_count(0)
    await trace.locator("summary").first.click()
    await expect(trace.locator(".timeline > li").first).to_be_visible()


async def test_without_scripts_the_parts_are_links(browser: Browser, program: Served) -> None:
    context = await browser.new_context(java_script_enabled=False, base_url=program.base)
    page = await context.new_page()
    await page.goto(program.address)
    await page.goto("/conversation?id=c1")
    await page.get_by_role("link", name="Show it").click()
    await expect(page.locator(".memory")).to_contain_text("awaiting confirmation")
    await context.close()


# Keyboard, width, colours

FOCUSED = """() => {
    const at = document.activeElement, all = [...document.querySelectorAll("*")];
    const name = at.className ? `${at.localName}.${at.className}` : at.localName;
    const { outlineStyle } = getComputedStyle(at);
    return [all.indexOf(at), name, outlineStyle, at.getBoundingClientRect().top];
}"""


@pytest.mark.parametrize("path", PATHS)
async def test_the_keyboard_reaches_each_control_in_order_with_a_visible_focus(
    page: Page, path: str
) -> None:
    await open_whole(page, path)
    expected = await page.evaluate(
        """() => [...document.querySelectorAll(
            "a[href], button, input, summary, [tabindex='0']")]
            .filter((each) => each.checkVisibility()).length"""
    )
    places: list[int] = []
    # A field for a day takes several steps.
    for _ in range(expected + 20):
        await page.keyboard.press("Tab")
        place, name, outline, top = await page.evaluate(FOCUSED)
        if name == "body" or (places and place < places[-1]):
            break
        assert outline != "none", name
        if not places:
            assert name == "a.skip"
            assert top >= 0
        if place not in places:
            places.append(place)
    assert len(places) == expected


# The texts of a page, its details opened, and whether they have the contrast that WCAG AA wants.
CONTRASTS = """() => {
    const parse = (text) => text.match(/[\\d.]+/g).map(Number);
    const part = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    const ground = (each) => {
        for (; each; each = each.parentElement) {
            const colour = parse(getComputedStyle(each).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    // A page has many of a kind, each of which loads something.
    for (const each of [...document.querySelectorAll("details")].slice(0, 40)) each.open = true;
    const ratios = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const each = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || each.closest("script, svg")) continue;
        const style = getComputedStyle(each);
        const [low, high] = [light(parse(style.color)), light(ground(each))].sort((a, b) => a - b);
        const size = parseFloat(style.fontSize), bold = style.fontWeight >= 700;
        const ratio = (high + 0.05) / (low + 0.05);
        const least = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
        ratios.push([ratio >= least, ratio.toFixed(2), texts.currentNode.data.trim().slice(0, 40)]);
    }
    return ratios;
}"""


@pytest.mark.parametrize("path", PATHS)
async def test_each_page_names_its_controls_fits_and_can_be_read(page: Page, path: str) -> None:
    await open_whole(page, path)
    assert await page.title() != ""
    assert await page.locator("img, iframe, style").count() == 0  # of stored text
    assert await page.locator("h1").count() == 1
    unnamed = await page.evaluate(
        """() => [...document.querySelectorAll("a, button, input, summary, svg[role=img]")]
            .filter((each) => !(each.textContent.trim() || each.ariaLabel || each.labels?.length))
            .map((each) => each.outerHTML)"""
    )
    assert unnamed == []
    for width in (768, 320):
        await page.set_viewport_size({"width": width, "height": 700})
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        await page.emulate_media(color_scheme=scheme)
        contrasts = await page.evaluate(CONTRASTS)
        assert len(contrasts) > 10
        assert [each for each in contrasts if not each[0]] == []
