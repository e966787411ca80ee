"""Two processes answer one user: one answer is stored, whichever is quicker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.places import MESSAGE_STORES
from tests.examples.serving import EXAMPLES


@pytest.mark.parametrize("name", MESSAGE_STORES)
def test_one_answer_is_stored(name: str, tmp_path: Path) -> None:
    with MESSAGE_STORES[name](tmp_path) as url:
        ran = subprocess.run(
            [sys.executable, "-W", "error", str(EXAMPLES / "two_workers.py")],
            env={**os.environ, "JAZZMINE_MESSAGE_STORE": url},
            capture_output=True,
            text=True,
            timeout=120,
        )

    assert ran.returncode == 0, ran.stderr
    winner, loser, question, answer = ran.stdout.splitlines()
    assert re.fullmatch(r"Worker [12] has answered", winner)
    said = f"{winner[:8]} answers 'Is there any tea?'"
    assert loser == f"Worker {'21'[int(winner[7]) - 1]} has nothing to do: {said}"
    assert (question, answer) == ("user: Is there any tea?", f"assistant: {said}")
