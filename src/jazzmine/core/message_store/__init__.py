"""The message stores' async API, and the records that they keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jazzmine import _lazy

if TYPE_CHECKING:
    from jazzmine._async.message_store.json import JSONMessageStore as JSONMessageStore
    from jazzmine._async.message_store.mongodb import MongoDBMessageStore as MongoDBMessageStore
    from jazzmine._async.message_store.postgres import PostgresMessageStore as PostgresMessageStore
    from jazzmine._async.message_store.sqlite import InMemoryMessageStore as InMemoryMessageStore
    from jazzmine._async.message_store.sqlite import SQLiteMessageStore as SQLiteMessageStore
    from jazzmine._async.message_store.store import MessageStore as MessageStore
    from jazzmine.records.log import *
    from jazzmine.records.messages import *
    from jazzmine.records.traces import *
    from jazzmine.records.turn_recorder import *
    from jazzmine.records.usage import *
else:
    _lazy.attach(globals(), _lazy.MESSAGE_RECORDS, _lazy.stores("_async", "message_store"))
