"""The page of each back end, or that of all back ends, lists its options with their defaults."""

from __future__ import annotations

import os
import re
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import pytest

from jazzmine import config
from jazzmine.config import BackendConfig

PAGES = Path(__file__).resolve().parents[2] / "docs" / "backends"
OPTIONS = [
    pytest.param(kind, option, id=f"{kind.storage}-{option.name}")
    for kind in vars(config).values()
    if isinstance(kind, type) and issubclass(kind, BackendConfig) and hasattr(kind, "storage")
    for option in fields(kind)
]


def written(default: object) -> set[str]:
    """How a page may write a default."""
    if default is MISSING:
        return {"(required)"}
    if isinstance(default, (bool, str, os.PathLike)):
        return {f"`{default}`"}
    return {f"{default:g}"} if isinstance(default, (int, float)) else {str(default)}


@pytest.mark.parametrize(("kind", "option"), OPTIONS)
def test_an_option_is_in_the_table_of_its_page(
    kind: type[BackendConfig], option: Field[Any]
) -> None:
    page = PAGES / f"{kind.storage}.md"
    text = (PAGES / "index.md").read_text("utf-8") + page.read_text("utf-8")
    table = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", text, re.MULTILINE))
    assert option.name in table, f"docs/backends/{page.name} has to list the option {option.name}"
    assert table[option.name] in written(option.default)
