"""An ASSEMBLE as a stream of events (section 11): progress in causal order, and the text in chunks.

Each builder function returns one event without its number. A `Feed` numbers the events and drops those that STREAM does
not request. So the runner of the sources sends events as they happen, and `outcome_events` once the text is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from memoranda.encoding import json_text
from memoranda.encoding.event_stream import format_event
from memoranda.errors import QueryError
from memoranda.standards.cal.assembly.assembly import (
    Assembly,
    SourceReport,
    SourceResult,
    budget_of,
    weights,
)
from memoranda.standards.cal.language.syntax import Assemble, StreamOptions

Event: TypeAlias = dict[str, Any]

# Tokens per chunk without chunk_size.
DEFAULT_CHUNK_TOKENS: Final = 100
_PROGRESS: Final = frozenset(
    ("assembly_started", "source_started", "source_completed", "assembly_completed")
)
_BUDGET: Final = frozenset(("dedup_completed", "budget_allocated", "disclosure_decided"))
_CHUNKS: Final = frozenset(("chunk",))
# Section 11.2: sent with any options.
_ALWAYS: Final = frozenset(("error", "cancelled"))
_OPTIONS: Final = {
    "progress": _PROGRESS,
    "budget": _BUDGET,
    "chunks": _CHUNKS,
    "all": _PROGRESS | _BUDGET | _CHUNKS,
}


class Feed:
    """Numbers the events of one stream, and drops those that its options do not request."""

    __slots__ = ("_assembly_id", "_event_types", "_seq")

    def __init__(self, stream: StreamOptions | None, assembly_id: str) -> None:
        options = (stream or StreamOptions()).options
        self._assembly_id = assembly_id
        self._event_types = _ALWAYS.union(*(_OPTIONS[option] for option in options))
        self._seq = 0

    def __call__(self, *events: Event) -> Iterator[Event]:
        """Yield the requested events with their number and the id of the assembly."""
        for event in events:
            if (event_type := event["type"]) in self._event_types:
                numbered = {
                    "type": event_type,
                    "assembly_id": self._assembly_id,
                    "seq": self._seq,
                } | event
                self._seq += 1
                yield numbered


def outcome_events(
    assembly: Assembly,
    chunk_size: int = DEFAULT_CHUNK_TOKENS,
    query_warnings: Sequence[Event] = (),
) -> Iterator[Event]:
    """Yield the events that follow once all sources have returned.

    The last event contains `query_warnings`, which concern the query, before those of the assembly.
    """
    yield dedup_completed(assembly)
    if assembly.failed:
        # Section 11.4: first the planned shares, then those after the share of failed sources went to the others.
        yield budget_allocated(assembly, before_failures=True)
    yield budget_allocated(assembly)
    if any(option.name == "progressive_disclosure" for option in assembly.statement.options):
        yield disclosure_decided(assembly)
    for warning in assembly.warnings:
        if warning["code"].startswith("CAL-E"):
            yield grain_error_event(warning)
    sent_count = 0
    for event in chunk_events(assembly, chunk_size):
        sent_count += 1
        yield event
    yield assembly_completed(assembly, sent_count, query_warnings)


def chunk_size_of(stream: StreamOptions | None) -> int:
    """Return the tokens per chunk."""
    return (stream.chunk_size if stream else None) or DEFAULT_CHUNK_TOKENS


def encode_sse(event: Event) -> bytes:
    """Encode an event for text/event-stream."""
    return format_event(event["type"], json_text.dump(event))


def encode_ndjson(event: Event) -> bytes:
    """Encode an event for application/x-ndjson."""
    return json_text.dump(event) + b"\n"


# --- builders of events -------------------------------------------------------------------------------------


def assembly_started(statement: Assemble) -> Event:
    """Build the event that the assembly starts."""
    budget = budget_of(statement)
    return {
        "type": "assembly_started",
        "name": statement.name,
        "intent": statement.intent,
        "source_count": len(statement.sources),
        "budget": {"total": budget.amount, "unit": budget.unit},
    }


def source_started(label: str, index: int) -> Event:
    """Build the event that a source starts."""
    return {"type": "source_started", "source": label, "index": index}


def source_ended(result: SourceResult, estimated_tokens: int) -> tuple[Event, ...]:
    """Build the event that a source has returned; if it failed, also an error, which no option suppresses."""
    label = result.label
    if result.error is not None:
        problem = {"code": result.error.cal_code, "message": result.error.message}
        return (
            {
                "type": "source_completed",
                "source": label,
                "duration_ms": result.duration_ms,
                "error": problem,
            },
            error_event(result.error, source=label, fatal=False),
        )
    completed = {
        "type": "source_completed",
        "source": label,
        "grain_count": len(result.items),
        "total": result.total,
        "estimated_tokens": estimated_tokens,
        "duration_ms": result.duration_ms,
    }
    return (completed,)


def dedup_completed(assembly: Assembly) -> Event:
    """Build the event that duplicates were removed."""
    remaining = len(assembly.items) + assembly.omitted
    return {"type": "dedup_completed", "removed": assembly.removed, "remaining": remaining}


def budget_allocated(assembly: Assembly, *, before_failures: bool = False) -> Event:
    """Build the event with the share of each source."""
    by_rank = sorted(assembly.sources, key=lambda source: source.priority)
    return {
        "type": "budget_allocated",
        "allocations": [
            _allocation_row(assembly, source, nominal=before_failures) for source in by_rank
        ],
        "revised": bool(assembly.failed) and not before_failures,
    }


def _allocation_row(assembly: Assembly, source: SourceReport, *, nominal: bool) -> Event:
    """Return the share of one source; with `nominal`, its part of the whole budget by weight alone."""
    share = weights(len(assembly.sources))[source.priority - 1]
    allocated = int(assembly.budget.amount * share) if nominal else source.allocated
    return {"source": source.label, "weight": share, "allocated": allocated}


def disclosure_decided(assembly: Assembly) -> Event:
    """Build the event with the levels of detail."""
    counts = assembly.disclosure()
    return {"type": "disclosure_decided", "level": counts.pop("level"), "counts": counts}


def assembly_completed(
    assembly: Assembly, chunk_count: int, query_warnings: Sequence[Event] = ()
) -> Event:
    """Build the event that the assembly is complete."""
    budget = assembly.document()["assembly"]["budget"]
    return {
        "type": "assembly_completed",
        "summary": {
            "grain_count": len(assembly.items),
            "tokens_used": assembly.tokens_used,
            "budget": {"total": budget["total"], "unit": budget["unit"]},
            "utilization": budget["utilization"],
            "disclosure": assembly.disclosure(),
            "sources_failed": list(assembly.failed),
            "chunks": chunk_count,
            "warnings": [*query_warnings, *assembly.warnings],
        },
    }


def error_event(problem: QueryError, *, source: str | None = None, fatal: bool = True) -> Event:
    """Build the event of an error; after a fatal one, no event follows."""
    event: Event = {
        "type": "error",
        "code": problem.cal_code,
        "message": problem.message,
        "suggestion": problem.suggestion,
        "fatal": fatal,
    }
    return event if source is None else event | {"source": source}


def grain_error_event(warning: dict[str, str]) -> Event:
    """Build the event that one grain could not be formatted; the others were."""
    problem = QueryError(
        warning["message"],
        cal_code=warning["code"],
        suggestion="Look at the grain itself: RECALL WHERE hash = …",
    )
    return error_event(problem, source=warning.get("source"), fatal=False)


def cancelled_event(reason: str) -> Event:
    """Build the event that the stream was cancelled; the chunks sent before are valid."""
    return {"type": "cancelled", "reason": reason}


# --- chunks -------------------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """A part of the text that is never split, its source, and the number of grains in it."""

    text: str
    source: str | None
    grains: int


def chunk_events(assembly: Assembly, chunk_size: int) -> Iterator[Event]:
    """Yield the text in chunks; joined, they are exactly the text (cal.md, *chunks of a stream*)."""
    budget = assembly.budget
    sent_chars = sent_grains = 0
    for index, chunk in enumerate(_join_pieces(assembly, chunk_size)):
        sent_chars += len(chunk.text)
        sent_grains += chunk.grains
        if sent_chars == len(assembly.text):
            used_units = assembly.used
        else:
            used_units = (
                assembly.counter.count(assembly.text[:sent_chars])
                if budget.unit == "tokens"
                else sent_grains
            )
        yield {
            "type": "chunk",
            "chunk_index": index,
            "content": chunk.text,
            "tokens": assembly.counter.count(chunk.text),
            "budget_remaining": max(0, budget.amount - used_units),
            "source": chunk.source,
            "format": assembly.format,
        }


def _join_pieces(assembly: Assembly, chunk_size: int) -> Iterator[_Piece]:
    """Join adjacent pieces of one source up to the chunk size."""
    parts: list[str] = []
    source, grains, size = None, 0, 0
    for piece in _split_pieces(assembly):
        tokens = assembly.counter.count(piece.text)
        if parts and (piece.source != source or size + tokens > chunk_size):
            yield _Piece("".join(parts), source, grains)
            parts, grains, size = [], 0, 0
        source = piece.source
        parts.append(piece.text)
        grains += piece.grains
        size += tokens
    if parts:
        yield _Piece("".join(parts), source, grains)


def _split_pieces(assembly: Assembly) -> Iterator[_Piece]:
    """Yield each grain with the text before it; the end of the text belongs to the last one."""
    text, position = assembly.text, 0
    ends: list[tuple[int, str]] = []
    for grain in assembly.items:
        line = grain.line.strip("\n,") if assembly.format == "json" else grain.line.strip("\n")
        start = text.find(line, position)
        if start < 0:
            # In this text it is printed in another form; it becomes part of the next grain's piece.
            continue
        position = _find_grain_end(text, start + len(line), assembly.format)
        ends.append((position, grain.source))
    if ends:
        ends[-1] = (len(text), ends[-1][1])
    elif text:
        yield _Piece(text, None, 0)
    begin = 0
    for number, (end, source) in enumerate(ends):
        # The heading stays with the first grain; before other grains, each line can be a piece of its own.
        lines = [text[begin:end]] if number == 0 else text[begin:end].splitlines(keepends=True)
        for heading in lines[:-1]:
            yield _Piece(heading, source, 0)
        yield _Piece(lines[-1], source, 1)
        begin = end


def _find_grain_end(text: str, position: int, format_name: str) -> int:
    """Return the position after a grain's line: after its line break, or in JSON after its comma."""
    if format_name == "json":
        return position + 1 if text[position : position + 1] == "," else position
    line_end = text.find("\n", position)
    return len(text) if line_end < 0 else line_end + 1
