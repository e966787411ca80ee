"""The working-memory stores' sync API, and the records that they keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jazzmine import _lazy

if TYPE_CHECKING:
    from jazzmine._sync.working_memory.memory import (
        InMemoryWorkingMemoryStore as InMemoryWorkingMemoryStore,
    )
    from jazzmine._sync.working_memory.postgres import (
        PostgresWorkingMemoryStore as PostgresWorkingMemoryStore,
    )
    from jazzmine._sync.working_memory.redis import (
        RedisWorkingMemoryStore as RedisWorkingMemoryStore,
    )
    from jazzmine._sync.working_memory.sqlite import (
        SQLiteWorkingMemoryStore as SQLiteWorkingMemoryStore,
    )
    from jazzmine._sync.working_memory.store import WorkingMemoryStore as WorkingMemoryStore
    from jazzmine.records.enums import *
    from jazzmine.records.flow import *
    from jazzmine.records.tool_call import *
    from jazzmine.records.turn import *
    from jazzmine.records.working_memory import *
else:
    _lazy.attach(globals(), _lazy.MEMORY_RECORDS, _lazy.stores("_sync", "working_memory"))
