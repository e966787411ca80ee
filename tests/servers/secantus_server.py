"""SecantusDB with a rule of MongoDB's that it lacks, as a program.

MongoDB refuses a retryable write whose transaction number is lower than the newest one that its
session has seen. SecantusDB refuses that of transactions alone.

https://github.com/mongodb/specifications/blob/master/source/retryable-writes/retryable-writes.md
https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml (TransactionTooOld)
"""

from __future__ import annotations

import sys
from typing import Any

from secantus import server  # type: ignore[import-untyped]
from secantus.cli import main  # type: ignore[import-untyped]
from secantus.commands import _txn_envelope  # type: ignore[import-untyped]
from secantus.transactions import _transaction_too_old  # type: ignore[import-untyped]

_dispatch: Any = server.dispatch


def _dispatch_numbered(command: dict[str, Any], context: Any) -> Any:
    transactions = context.transactions
    if "txnNumber" in command and "autocommit" not in command and transactions is not None:
        session, number = _txn_envelope(command)
        newest = transactions._last_number.get(session, 0)
        if session is not None and number is not None and number < newest:
            return _transaction_too_old(number, newest)
    return _dispatch(command, context)


if __name__ == "__main__":
    server.dispatch = _dispatch_numbered
    sys.exit(main())
