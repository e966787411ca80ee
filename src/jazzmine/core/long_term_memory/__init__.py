"""The long-term memories' async API, and the records that they keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jazzmine import _lazy

if TYPE_CHECKING:
    from jazzmine._async.long_term_memory.mongodb import (
        MongoDBLongTermMemoryStore as MongoDBLongTermMemoryStore,
    )
    from jazzmine._async.long_term_memory.postgres import (
        PostgresLongTermMemoryStore as PostgresLongTermMemoryStore,
    )
    from jazzmine._async.long_term_memory.sqlite import (
        InMemoryLongTermMemoryStore as InMemoryLongTermMemoryStore,
    )
    from jazzmine._async.long_term_memory.sqlite import (
        SQLiteLongTermMemoryStore as SQLiteLongTermMemoryStore,
    )
    from jazzmine._async.long_term_memory.store import LongTermMemoryStore as LongTermMemoryStore
    from jazzmine.records.items import *
    from jazzmine.records.log import ANY as ANY
else:
    _names = {**_lazy.stores("_async", "long_term_memory"), "ANY": "jazzmine.records.log"}
    _lazy.attach(globals(), _lazy.ITEM_RECORDS, _names)
