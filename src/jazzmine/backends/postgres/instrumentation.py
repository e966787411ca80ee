"""The instrumentor of psycopg, if the program has turned it on."""

from __future__ import annotations

import sys
from typing import Any

from psycopg import RawCursor

__all__ = ["instrument"]


def instrument(connection: Any) -> None:
    """Have opentelemetry-instrumentation-psycopg record the statements of a connection.

    It wraps psycopg's `connect()`, which the connections of the stores do not call.
    """
    module = sys.modules.get("opentelemetry.instrumentation.psycopg")
    instrumentor = getattr(module, "PsycopgInstrumentor", None)
    if instrumentor is not None and instrumentor().is_instrumented_by_opentelemetry:
        instrumentor.instrument_connection(connection)
        # Its cursors are made for statements with names or "%s" for their parameters.
        recording = connection.cursor_factory
        raw = {"_query_cls": RawCursor._query_cls}
        connection.cursor_factory = type(recording.__name__, (recording,), raw)
