"""Every file that the developers' guides name exists; the site's build checks links in docs/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "tests/README.md"]


@pytest.mark.parametrize("guide", GUIDES)
def test_every_link_leads_to_a_file(guide: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / guide).read_text(encoding="utf-8"))

    assert [link for link in links if not ((ROOT / guide).parent / link).exists()] == []


def test_every_file_of_the_map_of_the_tests_is_there() -> None:
    tests = ROOT / "tests"
    names = re.findall(r"`([\w/*]+\.py)`", (tests / "README.md").read_text(encoding="utf-8"))
    folders = [tests, tests / "behaviour"]

    assert len(names) > 50
    assert [name for name in names if not any(any(at.glob(name)) for at in folders)] == []
