"""An ASSEMBLE as events (section 11): what happens, in causal order, and the text in chunks.

Builders make one event each, without its number. A `Feed` numbers them and passes on those that STREAM asks for; who
runs the sources may so send events as they happen, and `outcome` once the text is there. `events` does it all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from memoranda.encoding import json_text
from memoranda.encoding.event_stream import format_event
from memoranda.errors import QueryError
from memoranda.standards.cal.assembly.assembly import Assembly, Gathered, SourceReport, budget_of, weights
from memoranda.standards.cal.language.syntax import Assemble, Stream

Event: TypeAlias = dict[str, Any]

DEFAULT_CHUNK_TOKENS: Final = 100
_PROGRESS: Final = frozenset(("assembly_started", "source_started", "source_completed", "assembly_completed"))
_BUDGET: Final = frozenset(("dedup_completed", "budget_allocated", "disclosure_decided"))
_CHUNKS: Final = frozenset(("chunk",))
# Section 11.2: sent whatever is asked for.
_ALWAYS: Final = frozenset(("error", "cancelled"))
_OPTIONS: Final = {"progress": _PROGRESS, "budget": _BUDGET, "chunks": _CHUNKS, "all": _PROGRESS | _BUDGET | _CHUNKS}


class Feed:
    """Numbers the events of one stream, and leaves out those that are not asked for."""

    __slots__ = ("_assembly_id", "_seq", "_wanted")

    def __init__(self, stream: Stream | None, assembly_id: str) -> None:
        options = (stream or Stream()).options
        self._assembly_id = assembly_id
        self._wanted = _ALWAYS.union(*(_OPTIONS[option] for option in options))
        self._seq = 0

    def __call__(self, *events: Event) -> Iterator[Event]:
        for event in events:
            if (kind := event["type"]) in self._wanted:
                numbered = {"type": kind, "assembly_id": self._assembly_id, "seq": self._seq} | event
                self._seq += 1
                yield numbered


def events(assembly: Assembly, stream: Stream | None, assembly_id: str) -> Iterator[Event]:
    """The whole stream of an ASSEMBLE that has run. Closing it is cancelling it (cal.md, *cancelling a stream*)."""
    feed = Feed(stream, assembly_id)
    yield from feed(assembly_started(assembly.statement))
    for index, source in enumerate(assembly.sources):
        yield from feed(source_started(source.label, index))
        yield from feed(*source_ended(source.gathered, source.demand))
    for event in outcome(assembly, chunk_size_of(stream)):
        yield from feed(event)


def outcome(assembly: Assembly, chunk_size: int = DEFAULT_CHUNK_TOKENS) -> Iterator[Event]:
    """What there is to say once all sources are back."""
    yield dedup_completed(assembly)
    if assembly.failed:
        # Section 11.4: what was meant for all, then how the share of those that failed was given to the others.
        yield budget_allocated(assembly, before_failures=True)
    yield budget_allocated(assembly)
    if any(option.name == "progressive_disclosure" for option in assembly.statement.options):
        yield disclosure_decided(assembly)
    for warning in assembly.warnings:
        if warning["code"].startswith("CAL-E"):
            yield grain_error(warning)
    sent = 0
    for event in chunks(assembly, chunk_size):
        sent += 1
        yield event
    yield assembly_completed(assembly, sent)


def chunk_size_of(stream: Stream | None) -> int:
    """The tokens that a chunk should have."""
    return (stream.chunk_size if stream else None) or DEFAULT_CHUNK_TOKENS


def sse(event: Event) -> bytes:
    """An event for text/event-stream."""
    return format_event(event["type"], json_text.dump(event))


def ndjson(event: Event) -> bytes:
    """An event for application/x-ndjson."""
    return json_text.dump(event) + b"\n"


# --- one event each -----------------------------------------------------------------------------------------


def assembly_started(statement: Assemble) -> Event:
    """It begins."""
    budget = budget_of(statement)
    return {
        "type": "assembly_started",
        "name": statement.name,
        "intent": statement.intent,
        "source_count": len(statement.sources),
        "budget": {"total": budget.amount, "unit": budget.unit},
    }


def source_started(label: str, index: int) -> Event:
    """A source runs."""
    return {"type": "source_started", "source": label, "index": index}


def source_ended(gathered: Gathered, estimated_tokens: int) -> tuple[Event, ...]:
    """A source is back; if it failed, that is an error of its own too, which no option leaves out."""
    label = gathered.label
    if gathered.error is not None:
        problem = {"code": gathered.error.cal_code, "message": gathered.error.message}
        return (
            {"type": "source_completed", "source": label, "duration_ms": gathered.duration_ms, "error": problem},
            error(gathered.error, source=label, fatal=False),
        )
    completed = {
        "type": "source_completed",
        "source": label,
        "grain_count": len(gathered.items),
        "total": gathered.total,
        "estimated_tokens": estimated_tokens,
        "duration_ms": gathered.duration_ms,
    }
    return (completed,)


def dedup_completed(assembly: Assembly) -> Event:
    """Duplicates are out."""
    remaining = len(assembly.items) + assembly.omitted
    return {"type": "dedup_completed", "removed": assembly.removed, "remaining": remaining}


def budget_allocated(assembly: Assembly, *, before_failures: bool = False) -> Event:
    """Which source gets how much."""
    by_rank = sorted(assembly.sources, key=lambda source: source.priority)
    return {
        "type": "budget_allocated",
        "allocations": [_allocation(assembly, source, nominal=before_failures) for source in by_rank],
        "revised": bool(assembly.failed) and not before_failures,
    }


def _allocation(assembly: Assembly, source: SourceReport, *, nominal: bool) -> Event:
    share = weights(len(assembly.sources))[source.priority - 1]
    allocated = int(assembly.budget.amount * share) if nominal else source.allocated
    return {"source": source.label, "weight": share, "allocated": allocated}


def disclosure_decided(assembly: Assembly) -> Event:
    """How much detail there is."""
    counts = assembly.disclosure()
    return {"type": "disclosure_decided", "level": counts.pop("level"), "counts": counts}


def assembly_completed(assembly: Assembly, chunk_count: int) -> Event:
    """It is done."""
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
            "warnings": list(assembly.warnings),
        },
    }


def error(problem: QueryError, *, source: str | None = None, fatal: bool = True) -> Event:
    """Something went wrong; fatal: nothing follows."""
    found: Event = {
        "type": "error",
        "code": problem.cal_code,
        "message": problem.message,
        "suggestion": problem.suggestion,
        "fatal": fatal,
    }
    return found if source is None else found | {"source": source}


def grain_error(warning: dict[str, str]) -> Event:
    """One grain could not be formatted; the rest was."""
    problem = QueryError(
        warning["message"], cal_code=warning["code"], suggestion="Look at the grain itself: RECALL WHERE hash = …"
    )
    return error(problem, source=warning.get("source"), fatal=False)


def cancelled(reason: str) -> Event:
    """Somebody stopped it; what was sent is valid."""
    return {"type": "cancelled", "reason": reason}


# --- chunks -------------------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """What is never taken apart."""

    text: str
    source: str | None
    grains: int


def chunks(assembly: Assembly, chunk_size: int) -> Iterator[Event]:
    """The text in order; together exactly the text (cal.md, *chunks of a stream*)."""
    budget = assembly.budget
    sent_chars = sent_grains = 0
    for index, chunk in enumerate(_joined(assembly, chunk_size)):
        sent_chars += len(chunk.text)
        sent_grains += chunk.grains
        if sent_chars == len(assembly.text):
            used = assembly.used
        else:
            used = assembly.counter.count(assembly.text[:sent_chars]) if budget.unit == "tokens" else sent_grains
        yield {
            "type": "chunk",
            "chunk_index": index,
            "content": chunk.text,
            "tokens": assembly.counter.count(chunk.text),
            "budget_remaining": max(0, budget.amount - used),
            "source": chunk.source,
            "format": assembly.format,
        }


def _joined(assembly: Assembly, chunk_size: int) -> Iterator[_Piece]:
    """Pieces of one source together, as many as make up a chunk."""
    parts: list[str] = []
    source, grains, size = None, 0, 0
    for piece in _pieces(assembly):
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


def _pieces(assembly: Assembly) -> Iterator[_Piece]:
    """Each grain with what stands before it; the end of the text with the last."""
    text, at = assembly.text, 0
    ends: list[tuple[int, str]] = []
    for shown in assembly.items:
        core = shown.line.strip("\n,") if assembly.format == "json" else shown.line.strip("\n")
        start = text.find(core, at)
        if start < 0:
            # It is written otherwise beside its neighbours, and goes with the next that is found.
            continue
        at = _end_of(text, start + len(core), assembly.format)
        ends.append((at, shown.source))
    if ends:
        ends[-1] = (len(text), ends[-1][1])
    elif text:
        yield _Piece(text, None, 0)
    begin = 0
    for number, (end, source) in enumerate(ends):
        # What stands before the first grain goes with it; elsewhere lines may part.
        lines = [text[begin:end]] if number == 0 else text[begin:end].splitlines(keepends=True)
        for line in lines[:-1]:
            yield _Piece(line, source, 0)
        yield _Piece(lines[-1], source, 1)
        begin = end


def _end_of(text: str, at: int, format_name: str) -> int:
    if format_name == "json":
        return at + 1 if text[at : at + 1] == "," else at
    line_end = text.find("\n", at)
    return len(text) if line_end < 0 else line_end + 1
