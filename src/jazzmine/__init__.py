"""The memory of a conversation, for AI agents.

The records and the errors are here. The stores are in `jazzmine.core` (async API) and in
`jazzmine.sync` (sync API).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jazzmine import _lazy

if TYPE_CHECKING:
    from jazzmine.errors import *
    from jazzmine.records.enums import *
    from jazzmine.records.flow import *
    from jazzmine.records.items import *
    from jazzmine.records.log import *
    from jazzmine.records.messages import *
    from jazzmine.records.tool_call import *
    from jazzmine.records.traces import *
    from jazzmine.records.turn import *
    from jazzmine.records.turn_recorder import *
    from jazzmine.records.usage import *
    from jazzmine.records.working_memory import *

    __version__: str
else:
    _lazy.attach(
        globals(),
        (
            "jazzmine.errors",
            *_lazy.MESSAGE_RECORDS,
            *_lazy.MEMORY_RECORDS,
            *_lazy.ITEM_RECORDS,
        ),
        {"__version__": "jazzmine._version"},
        elsewhere=("jazzmine.core", "jazzmine.sync"),
    )
