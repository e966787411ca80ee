"""SecantusDB with four rules of MongoDB's that it lacks, as a program.

MongoDB refuses a retryable write whose transaction number is lower than the newest one of its
session; SecantusDB refuses this only in transactions. MongoDB does not execute a repeated write
with the same number again; SecantusDB does if the driver has changed `maxTimeMS`, the remaining
time. And MongoDB executes the writes of a session one after another, so that these rules also
apply while the first attempt runs. MongoDB returns the document of `findAndModify` with an upsert;
SecantusDB returns none if another client inserts it at that moment.

With `--transaction-lifetime=2` a transaction that idles for 2 s is aborted, as by MongoDB's
parameter `transactionLifetimeLimitSeconds`. The default of both is 60 s.

https://github.com/mongodb/specifications/blob/master/source/retryable-writes/retryable-writes.md
https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml (TransactionTooOld)
"""

from __future__ import annotations

import copy
import sys
import threading
from collections import defaultdict
from typing import Any

from secantus import server
from secantus.cli import main
from secantus.commands import _txn_envelope
from secantus.transactions import _transaction_too_old

_dispatch: Any = server.dispatch
_sessions: defaultdict[bytes, threading.Lock] = defaultdict(threading.Lock)


def _dispatch_numbered(command: dict[str, Any], context: Any) -> Any:
    transactions = context.transactions
    if "txnNumber" not in command or "autocommit" in command or transactions is None:
        return _dispatch(command, context)
    session, number = _txn_envelope(command)
    if session is None or number is None:
        return _dispatch(command, context)
    with _sessions[session]:
        newest = transactions._last_number.get(session, 0)
        if number < newest:
            return _transaction_too_old(number, newest)
        known = transactions._retryable.get((session, number))
        if known is not None:
            return copy.deepcopy(known[0])
        reply = _dispatch(command, context)
        while command.get("upsert") and command.get("new") and reply.get("value", reply) is None:
            transactions._retryable.pop((session, number), None)
            reply = _dispatch(command, context)
        return reply


_LIFETIME = "--transaction-lifetime="


def _limit_transactions(seconds: float) -> None:
    registry = server.TransactionRegistry

    def limited(**options: Any) -> Any:
        return registry(**{**options, "lifetime_seconds": seconds})

    vars(server)["TransactionRegistry"] = limited


if __name__ == "__main__":
    server.dispatch = _dispatch_numbered
    for option in [option for option in sys.argv if option.startswith(_LIFETIME)]:
        sys.argv.remove(option)
        _limit_transactions(float(option.removeprefix(_LIFETIME)))
    sys.exit(main())
