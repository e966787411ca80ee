"""What is measured on a page in a browser."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from playwright.async_api import Page

Scheme: TypeAlias = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")

_CONTRASTS = """() => {
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


async def low_contrasts(page: Page, scheme: Scheme) -> list[Any]:
    """Return the texts of a page, its details opened, with less contrast than WCAG AA wants."""
    await page.emulate_media(color_scheme=scheme)
    contrasts = await page.evaluate(_CONTRASTS)
    assert len(contrasts) > 10
    return [each for each in contrasts if not each[0]]
