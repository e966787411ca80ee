"""A worker process: makes the store of one library, and calls its methods by JSON lines.

`python -m benchmarks.rivals.worker MODULE:CLASS [own-clock]`. A request is
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
from typing import TextIO

from benchmarks.rivals import clock
from benchmarks.rivals.store import Store


def serve(store: Store, requests: TextIO, replies: TextIO) -> None:
    """Answer requests one after another; coroutines run on one event loop."""
    loop = asyncio.new_event_loop()
    for line in requests:
        request = json.loads(line)
        try:
            result = getattr(store, request["call"])(**request["arguments"])
            if inspect.iscoroutine(result):
                result = loop.run_until_complete(result)
            reply = {"result": result}
        except Exception:
            reply = {"error": traceback.format_exc()}
        print(json.dumps(reply), file=replies, flush=True)


def main() -> None:
    """Serve on the standard streams; the output of a library goes to the error stream."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if "own-clock" in sys.argv:
        clock.install()
    module, name = sys.argv[1].split(":")
    serve(getattr(importlib.import_module(module), name)(), sys.stdin, replies)


if __name__ == "__main__":
    main()
