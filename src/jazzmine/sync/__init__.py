"""The sync API: the three kinds of store, and the records that they keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jazzmine import _lazy

if TYPE_CHECKING:
    from jazzmine._sync.stores import Stores as Stores
    from jazzmine._sync.stores import open_stores as open_stores
    from jazzmine.sync.long_term_memory import *
    from jazzmine.sync.message_store import *
    from jazzmine.sync.working_memory import *
else:
    _lazy.attach(
        globals(),
        (
            "jazzmine.sync.message_store",
            "jazzmine.sync.working_memory",
            "jazzmine.sync.long_term_memory",
        ),
        {"Stores": "jazzmine._sync.stores", "open_stores": "jazzmine._sync.stores"},
        elsewhere=("jazzmine", "jazzmine.encryption"),
    )
