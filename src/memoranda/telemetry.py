"""Traces by OpenTelemetry (`memoranda[otel]`), where the environment asks for them with its usual names.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318      to this collector, over HTTP
    OTEL_TRACES_EXPORTER=console                           to standard error, to look at
    OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS …   as everywhere

Without the first two nothing of OpenTelemetry is loaded. Callers that send `traceparent` have our spans in theirs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import Final

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_log = logging.getLogger(__name__)


def find_exporter(environ: Mapping[str, str]) -> str | None:
    """Return the name of the exporter that the environment asks for; None for no traces."""
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or exporter == "none":
        return None
    return exporter or ("otlp" if any(environ.get(name) for name in _ENDPOINTS) else None)


def start(
    environ: Mapping[str, str] | None = None, *, is_one_line: bool = False
) -> Callable[[], None]:
    """Trace this process if its environment asks for it; return a function that sends the last spans and ends tracing.

    `is_one_line`: the console exporter writes each span on one line.
    """
    exporter = find_exporter(os.environ if environ is None else environ)
    if exporter is None:
        return _nothing
    try:
        from memoranda import spans

        return spans.trace_to(spans.exporter_named(exporter, is_one_line=is_one_line))
    except ImportError:
        _log.warning(
            "traces are asked for (OTEL_…), and OpenTelemetry is missing: pip install 'memoranda[otel]'"
        )
    except ValueError as error:
        _log.warning("no traces: %s", error)
    return _nothing


def _nothing() -> None:
    """Do nothing: tracing was not started."""
