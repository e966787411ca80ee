"""Scripts: a report of the last day, a pool of forked workers, and two workers for one user."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jazzmine.sync import MessageStore
from tests.behaviour.samples import conversation, llm_call, message, tool_trace, trace
from tests.examples.serving import EXAMPLES, url_of
from tests.servers import postgres

NOW = int(time.time() * 1000)
DAY = 24 * 3600 * 1000


# A file and a server: a program sees no difference between the others and these.
@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path / 'messages.db'}"
        return
    with postgres.new_database() as dsn:
        yield url_of(dsn)


def run(script: str, url: str, *arguments: str) -> str:
    environment = {**os.environ, "JAZZMINE_MESSAGE_STORE": url, "COLUMNS": "120"}
    command = [sys.executable, "-W", "error", str(EXAMPLES / script), *arguments]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert not ran.stderr
    return ran.stdout


def rows(shown: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in shown.splitlines()
        if line.startswith("│")
    ]


def test_the_report_shows_the_last_day_by_model_and_by_agent(url: str) -> None:
    with MessageStore.initialize(url) as store:
        for number, (agent, model, tokens, spent, ago) in enumerate(
            [
                ("tea-shop", "small", 1000, 100, 60_000),
                ("tea-shop", "large", 5000, 3000, 120_000),
                ("bookshop", "large", 200, 50, 180_000),
                ("tea-shop", "forgotten", 9999, 9999, 2 * DAY),
            ]
        ):
            chat, began = f"c{number}", NOW - ago
            store.store_turn(
                conversation=conversation(chat, agent_id=agent),
                messages=[message(f"{chat}-0", conversation_id=chat)],
                trace=trace(
                    f"{chat}-0",
                    conversation_id=chat,
                    agent_id=agent,
                    started_at_ms=began,
                    total_latency_ms=spent,
                    total_tokens=tokens,
                    llm_calls=[llm_call(model=model, total_tokens=tokens, latency_ms=spent // 2)],
                    tool_traces=[tool_trace(tool_name="look_up_price", success=True)],
                ),
            )

    shown = rows(run("worker.py", url, "--slow", "2000"))

    assert ["large", "2", "0", "5,200", "762", "1,500", "1,500"] in shown
    assert ["small", "1", "0", "1,000", "50", "50", "50"] in shown
    assert ["tea-shop", "2", "0", "6,000", "1,550", "3,000", "3,000"] in shown
    assert ["bookshop", "1", "0", "200", "50", "50", "50"] in shown
    assert ["c1", "1", "3,000", "look_up_price", ""] in shown
    assert len(shown) == 5


def test_forked_workers_share_a_store_that_was_opened_before_the_fork(url: str) -> None:
    with MessageStore.initialize(url) as store:
        for number in range(24):
            chat = f"c{number}"
            texts = ("How much is assam?", "Take 4111 1111 1111 1111, please.", "My order is 4711.")
            store.store_turn(
                conversation=conversation(chat, agent_id="tea-shop"),
                messages=[
                    message(f"{chat}-{at}", conversation_id=chat, original_content=text)
                    for at, text in enumerate(texts, 1)
                ],
            )

    shown = run("prefork_worker.py", url, "tea-shop")

    reports = re.findall(r"(c\d+): flagged (\d)", shown)
    assert len(set(re.findall(r"process (\d+)", shown))) > 1
    assert sorted(reports) == sorted((f"c{number}", "1") for number in range(24))
    with MessageStore.initialize(url) as store:
        for number in range(24):
            seen = store.get_immediate_context(f"c{number}", 5)
            assert [each.id for each in seen] == [f"c{number}-1", f"c{number}-3"]


def test_of_two_workers_that_answer_one_user_one_answer_is_stored(url: str) -> None:
    winner, loser, question, answer = run("two_workers.py", url).splitlines()
    assert re.fullmatch(r"Worker [12] has answered", winner)
    said = f"{winner[:8]} answers 'Is there any tea?'"
    assert loser == f"Worker {'21'[int(winner[7]) - 1]} has nothing to do: {said}"
    assert (question, answer) == ("user: Is there any tea?", f"assistant: {said}")
