"""The instrumentor of psycopg, if the program has turned it on."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["instrument"]


def instrument(connection: Any) -> None:
    """Have opentelemetry-instrumentation-psycopg record the statements of a connection.

    It wraps psycopg's `connect()`, which the stores do not call, because that takes 2 s at least
    to time out.
    """
    module = sys.modules.get("opentelemetry.instrumentation.psycopg")
    instrumentor = getattr(module, "PsycopgInstrumentor", None)
    if instrumentor is not None and instrumentor().is_instrumented_by_opentelemetry:
        instrumentor.instrument_connection(connection)
