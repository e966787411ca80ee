"""A WSGI application that reports at the end of each process whether its stores were closed.

It is the application of the module in PROBED, served by gunicorn in a test.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Mapping
from importlib import import_module

from jazzmine import StoreClosedError
from jazzmine.sync import MessageStore

opened: list[MessageStore] = []
initialize = MessageStore.initialize


def recorded(config: Mapping[str, object] | str | os.PathLike[str] | None = None) -> MessageStore:
    opened.append(initialize(config))
    return opened[-1]


@atexit.register  # registered before the application's exit functions, so it runs after them
def report() -> None:
    for store in opened:
        try:
            store.ping()
        except StoreClosedError:
            print(f"store closed in {os.getpid()}", file=sys.stderr)
        else:
            print(f"store open in {os.getpid()}", file=sys.stderr)


MessageStore.initialize = recorded  # type: ignore[method-assign]
application = import_module(os.environ["PROBED"]).application
