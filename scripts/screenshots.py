"""Make the pictures of the inspector and of `jazzmine show` in docs/images."""

from __future__ import annotations

import asyncio
import io
import re
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.async_api import Browser
from rich.console import Console
from rich.text import Text

from jazzmine.core import MessageStore
from scripts import sample_desk
from tests.adapters.frameworks import missing
from tests.cli.program import on_terminal
from tests.inspector import browser as chromium
from tests.inspector.served import served

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
END = datetime(2026, 11, 20, 16, 40, tzinfo=UTC)
LIMIT = 200_000

THREAD = f"/conversation?id={sample_desk.NEWEST}#end"
FAILED = f"/turn?message={sample_desk.FAILED_CALL}-assistant"


class Picture(NamedTuple):
    """What is taken of a page.

    Attributes:
        opened: which parts are opened before.
        shown: what the picture begins with, if not with the page.
    """

    name: str
    address: str
    width: int
    height: int
    scheme: Literal["light", "dark"]
    opened: tuple[str, ...] = ()
    shown: str = ""


PICTURES = (
    Picture("inspector-conversations", "/", 1180, 720, "light"),
    Picture(
        "inspector-thread",
        THREAD,
        1180,
        800,
        "light",
        ("details.trace >> nth=-1 >> summary >> nth=0",),
        "article >> nth=-4",
    ),
    Picture("inspector-turn", FAILED, 1180, 1000, "dark", ("details.call >> nth=-1 >> summary",)),
    Picture("inspector-turns", "/turns", 1180, 560, "light"),
    Picture("inspector-search", "/search?words=kettle+damaged", 1180, 560, "light"),
    Picture("inspector-usage", "/usage?since=2026-10-22", 1180, 900, "dark"),
)
ADAPTER = Picture("adapter-turn", "/turn?message=", 1180, 640, "light")

SHOWN = ("show", sample_desk.NEWEST, "--last", "4", "--traces")


def draw_terminal(url: str) -> None:
    """Draw what the program writes to a terminal."""
    written = on_terminal(*SHOWN, JAZZMINE_MESSAGE_STORE=url).replace("\r\n", "\n")
    console = Console(record=True, width=92, file=io.StringIO(), force_terminal=True)
    console.print(f"$ jazzmine {' '.join(SHOWN)}", highlight=False, style="bold")
    console.print(Text.from_ansi(written))
    drawn = console.export_svg(title="jazzmine show", unique_id="show")
    # A browser would fetch the font of another site.
    drawn = re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r" +$", "", drawn, flags=re.MULTILINE)
    (IMAGES / "show.svg").write_text(drawn, encoding="utf-8")
    print(f"show.svg: {len(drawn):,} bytes")


async def take(
    browser: Browser, folder: Path, stores: Sequence[str], pictures: Sequence[Picture]
) -> None:
    """Take pictures of the pages of stores, which are given as to the program."""
    with served(folder, *stores) as program:
        for picture in pictures:
            context = await browser.new_context(
                base_url=program.base,
                viewport={"width": picture.width, "height": picture.height},
                color_scheme=picture.scheme,
            )
            page = await context.new_page()
            await page.goto(program.address)
            await page.goto(picture.address)
            for part in picture.opened:
                await page.locator(part).click()
            await page.wait_for_load_state("networkidle", timeout=5_000)
            if picture.shown:
                await page.locator(picture.shown).evaluate("(part) => part.scrollIntoView()")
            taken = await page.screenshot(path=IMAGES / f"{picture.name}.png")
            assert len(taken) < LIMIT, f"{picture.name} has {len(taken)} bytes"
            print(f"{picture.name}.png: {len(taken):,} bytes")
            await context.close()


async def run_an_agent(url: str) -> str:
    """Record a run of an agent of OpenAI Agents; return the id of the message with its trace."""
    from agents import Runner

    from jazzmine.adapters.openai_agents import JazzmineSession
    from tests.adapters.scripted_openai_agents import agent

    async with await MessageStore.initialize(url) as store:
        session = JazzmineSession(store, "trip-1", user_id="ada", agent_id="guide")
        async with session.recorder() as hooks:
            await Runner.run(agent()[0], "Will it rain in Lisbon?", session=session, hooks=hooks)
        (trace,) = await store.get_turn_traces_by_conversation_id("trip-1")
        return trace.message_id


async def main() -> None:
    """Fill stores, serve them, and take the pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sample_desk.fill(folder / "desk.db", round(END.timestamp() * 1000))
        desk, agents = (f"sqlite:{folder / each}.db" for each in ("desk", "agents"))
        draw_terminal(desk)
        async with chromium.running() as browser:
            await take(browser, folder, ["--store", desk, "--memory", desk], PICTURES)
            if problem := missing("openai_agents"):
                print(f"adapter-turn.png is left as it was: {problem}")
                return
            picture = ADAPTER._replace(address=ADAPTER.address + await run_an_agent(agents))
            await take(browser, folder, ["--store", agents], [picture])


if chromium.MISSING:
    sys.exit(f"screenshots: {chromium.MISSING}")
asyncio.run(main())
