"""The records of a message store, under the path that jazzmine 0.1 had for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jazzmine import _lazy

if TYPE_CHECKING:
    from jazzmine.records.log import *
    from jazzmine.records.messages import *
    from jazzmine.records.traces import *
    from jazzmine.records.turn_recorder import *
    from jazzmine.records.usage import *
else:
    _lazy.attach(globals(), _lazy.MESSAGE_RECORDS)
