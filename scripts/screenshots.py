"""Make the pictures of the inspector and of `jazzmine show` in docs/images."""

from __future__ import annotations

import asyncio
import io
import re
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from rich.console import Console
from rich.text import Text

from scripts import sample_desk
from tests.cli.program import on_terminal
from tests.inspector import browser as chromium
from tests.inspector.served import served

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
END = datetime(2026, 11, 20, 16, 40, tzinfo=timezone.utc)
LIMIT = 200_000

# Name, address, width, height, colours, and what is opened before.
PICTURES = (
    ("inspector-conversations", "/", 1180, 720, "light", ""),
    (
        "inspector-thread",
        f"/conversation?id={sample_desk.NEWEST}",
        1180,
        760,
        "light",
        "details.trace >> nth=-1",
    ),
    ("inspector-thread-phone", f"/conversation?id={sample_desk.NEWEST}", 390, 760, "dark", ""),
    ("inspector-usage", "/usage?since=2026-10-22", 1180, 900, "dark", ""),
)

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


async def main() -> None:
    """Fill a store, serve it, and take the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "desk.db"
        sample_desk.fill(path, round(END.timestamp() * 1000))
        url = f"sqlite:{path}"
        draw_terminal(url)
        with served(Path(folder), "--store", url, "--memory", url) as program:
            async with chromium.running() as browser:
                for name, address, width, height, scheme, opened in PICTURES:
                    context = await browser.new_context(
                        base_url=program.base,
                        viewport={"width": width, "height": height},
                        color_scheme="dark" if scheme == "dark" else "light",
                    )
                    page = await context.new_page()
                    await page.goto(program.address)
                    await page.goto(address)
                    if opened:
                        await page.locator(opened).locator("summary").first.click()
                        await page.locator("article >> nth=-4").evaluate(
                            "(e) => e.scrollIntoView()"
                        )
                    await page.wait_for_load_state("networkidle", timeout=2_000)
                    taken = await page.screenshot(path=IMAGES / f"{name}.png")
                    assert len(taken) < LIMIT, f"{name} has {len(taken)} bytes"
                    print(f"{name}.png: {len(taken):,} bytes")
                    await context.close()


if chromium.MISSING:
    sys.exit(f"screenshots: {chromium.MISSING}")
asyncio.run(main())
