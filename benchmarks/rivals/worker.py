"""A worker process: imports one library, and calls a scenario's methods by JSON lines.

A request is `{"scenario": "module:Class", "folder": …, "options": {…}}` or
`{"call": "method", "arguments": {…}}`; the reply is `{"result": …}` or `{"error": traceback}`.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any, TextIO

from benchmarks.rivals.scenario import Scenario


class Server:
    """Answers requests one after another; coroutines run on one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._scenario: Scenario | None = None

    def answer(self, request: dict[str, Any]) -> object:
        if "scenario" in request:
            self._scenario = _make(request)
            return self._run(self._scenario, "prepare", {})
        if self._scenario is None:
            raise RuntimeError("no scenario was made")
        return self._run(self._scenario, request["call"], request["arguments"])

    def _run(self, scenario: Scenario, method: str, arguments: dict[str, Any]) -> object:
        result = getattr(scenario, method)(**arguments)
        if inspect.iscoroutine(result):
            return self._loop.run_until_complete(result)
        return result


def _make(request: dict[str, Any]) -> Scenario:
    module, name = request["scenario"].split(":")
    kind = getattr(importlib.import_module(module), name)
    scenario = kind(Path(request["folder"]), **request["options"])
    if not isinstance(scenario, Scenario):
        raise TypeError(f"{request['scenario']} is no Scenario")
    return scenario


def serve(requests: TextIO, replies: TextIO) -> None:
    server = Server()
    for line in requests:
        try:
            reply = {"result": server.answer(json.loads(line))}
        except Exception:
            reply = {"error": traceback.format_exc()}
        print(json.dumps(reply), file=replies, flush=True)


def main() -> None:
    """Serve on the standard streams; the output of a scenario goes to the error stream."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.stdin, replies)


if __name__ == "__main__":
    main()
