"""The Chromium of this machine, for tests and pictures."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

PROGRAM = os.environ.get("JAZZMINE_CHROMIUM") or shutil.which("chromium")
MISSING = "" if PROGRAM else "no Chromium is installed here (apt-get install chromium)"


@asynccontextmanager
async def running() -> AsyncIterator[Browser]:
    """Provide a browser without a window."""
    # The sandbox refuses to run as root; the pages are our own.
    options = [] if os.getuid() else ["--no-sandbox"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=PROGRAM, args=options)
        try:
            yield browser
        finally:
            await browser.close()
