"""Records the spans of OpenTelemetry that a test makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler


class Recorder:
    """The spans that ended, oldest first, and the provider to make others with."""

    def __init__(self, sampler: Sampler = ALWAYS_ON) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    def take(self) -> list[ReadableSpan]:
        """Return the spans, and forget them."""
        spans = list(self._exporter.get_finished_spans())
        self._exporter.clear()
        return spans

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of the only span, and forget it."""
        (span,) = self.take()
        return dict(span.attributes or {})


@contextmanager
def recorded(sampler: Sampler = ALWAYS_ON) -> Iterator[Recorder]:
    """Record the spans of all stores, as if the program had set a provider.

    The real one can be set only once in a process.
    """
    recorder = Recorder(sampler)
    with patch.object(trace, "get_tracer_provider", lambda: recorder.provider):
        yield recorder


def parents(spans: list[ReadableSpan]) -> dict[str, str | None]:
    """Return the name of each span's parent by the name of the span."""
    names = {span.context.span_id: span.name for span in spans if span.context}
    return {span.name: names.get(span.parent.span_id) if span.parent else None for span in spans}
