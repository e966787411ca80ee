"""Every process under gunicorn opens one store, and closes it when it ends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.examples.places import postgres_url
from tests.examples.serving import EXAMPLES, free_port, many, serving
from tests.servers import redis


@pytest.mark.parametrize(
    ("application", "options", "processes"),
    [
        ("wsgi_app", ["--preload"], 5),  # the four workers, and their parent
        ("desk.wsgi", [], 4),
    ],
)
def test_a_store_is_opened_once_a_process_and_closed_at_its_end(
    application: str, options: list[str], processes: int, tmp_path: Path
) -> None:
    port = free_port()
    paths = [EXAMPLES, EXAMPLES / "django_project", Path(__file__).parent]
    command = ["-m", "gunicorn", "--config", str(EXAMPLES / "wsgi_gunicorn.py"), *options]
    command += ["--pythonpath", ",".join(map(str, paths)), "--bind", f"127.0.0.1:{port}"]
    with postgres_url(tmp_path) as url, redis.database() as memory:
        environment = {
            "JAZZMINE_MESSAGE_STORE": url,
            "JAZZMINE_WORKING_MEMORY": memory,
            "PROBED": application,
        }
        with serving([*command, "end_probe:application"], port, tmp_path, environment) as chat:
            many(chat, [(f"c{n}", "ada", ["How much is assam?"] * 3) for n in range(32)])

        reports = re.findall(r"store (\w+) in (\d+)", chat.log.read_text())

    assert {state for state, _ in reports} == {"closed"}
    assert len({process for _, process in reports}) == len(reports)
    # A worker that opens its stores lazily and got no request has nothing to close.
    assert 1 <= len(reports) <= processes
    assert application != "wsgi_app" or len(reports) == processes
