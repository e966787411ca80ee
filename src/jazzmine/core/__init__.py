"""The async API: the three kinds of store, and the records that they keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jazzmine import _lazy

if TYPE_CHECKING:
    from jazzmine._async.stores import Stores as Stores
    from jazzmine._async.stores import open_stores as open_stores
    from jazzmine.core.long_term_memory import *
    from jazzmine.core.message_store import *
    from jazzmine.core.working_memory import *
else:
    _lazy.attach(
        globals(),
        (
            "jazzmine.core.message_store",
            "jazzmine.core.working_memory",
            "jazzmine.core.long_term_memory",
        ),
        {"Stores": "jazzmine._async.stores", "open_stores": "jazzmine._async.stores"},
        elsewhere=("jazzmine", "jazzmine.encryption"),
    )
