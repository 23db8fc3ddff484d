"""ASSEMBLE as events: their order, their members, and chunks that are the text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.standards.cal.grains import NOW, belief, goal, hostile_items, plain_items, statement

from memoranda.encoding import json_text
from memoranda.errors import QueryError
from memoranda.standards.cal.assembly import stream
from memoranda.standards.cal.assembly.assembly import Assembly, SourceResult, assemble
from memoranda.standards.cal.item import ResultItem
from memoranda.standards.cal.language.words import FORMATS

ID = "asm_a1b2c3d4"
BELIEFS = tuple(belief(f"tea number {number}", confidence=0.9) for number in range(12))
GOALS = tuple(goal(f"walk {number}", **({"deadline": NOW} if number % 2 else {})) for number in range(4))


def made(
    rest: str = "", *, failed: bool = False, by_source: tuple[tuple[ResultItem, ...], ...] = (BELIEFS, GOALS)
) -> Assembly:
    named = ", ".join(f"s{place}: (RECALL)" for place in range(len(by_source)))
    asked = statement(f'ASSEMBLE ctx FOR "tea" FROM {named} {rest}')
    sources = [
        SourceResult(label=f"s{place}", items=items, total=len(items) + 1, duration_ms=place)
        for place, items in enumerate(by_source)
    ]
    if failed:
        problem = QueryError("It took too long.", cal_code="CAL-E031", suggestion="Ask for less.")
        sources[0] = replace(sources[0], items=(), error=problem)
    return assemble(asked, sources, now=NOW)


def stream_events(assembly: Assembly) -> Iterator[stream.Event]:
    """Yield the whole stream of an ASSEMBLE that has run, as its runner sends it."""
    feed = stream.Feed(assembly.statement.stream, ID)
    yield from feed(stream.assembly_started(assembly.statement))
    for index, source in enumerate(assembly.sources):
        yield from feed(stream.source_started(source.label, index))
        yield from feed(*stream.source_ended(source.result, source.demand))
    for event in stream.outcome_events(assembly, stream.chunk_size_of(assembly.statement.stream)):
        yield from feed(event)


def sent(assembly: Assembly) -> list[stream.Event]:
    return list(stream_events(assembly))


def kinds(assembly: Assembly) -> list[str]:
    found: list[str] = []
    for event in sent(assembly):
        if event["type"] != "chunk" or found[-1:] != ["chunk"]:
            found.append(event["type"])
    return found


@pytest.mark.requirement("CAL-11-streaming-order")
def test_events_come_in_causal_order() -> None:
    assert kinds(made("STREAM WITH progressive_disclosure")) == [
        "assembly_started",
        "source_started",
        "source_completed",
        "source_started",
        "source_completed",
        "dedup_completed",
        "budget_allocated",
        "disclosure_decided",
        "chunk",
        "assembly_completed",
    ]
    events = sent(made("STREAM"))
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert {event["assembly_id"] for event in events} == {ID}


@pytest.mark.requirement("CAL-11.2-options")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            "{ progress }",
            ["assembly_started", *["source_started", "source_completed"] * 2, "assembly_completed"],
        ),
        ("{ budget }", ["dedup_completed", "budget_allocated", "disclosure_decided"]),
        ("{ chunks }", ["chunk"]),
        ("{ chunks, chunk_size = 20 }", ["chunk"]),
        ("{ budget, chunks }", ["dedup_completed", "budget_allocated", "disclosure_decided", "chunk"]),
    ],
)
def test_options_leave_events_out(options: str, expected: list[str]) -> None:
    assembly = made(f"STREAM {options} WITH progressive_disclosure")
    assert kinds(assembly) == expected
    events = sent(assembly)
    assert [event["seq"] for event in events] == list(range(len(events)))


@pytest.mark.requirement("CAL-11.3-members")
def test_every_event_has_its_members() -> None:
    assembly = made("BUDGET 300 tokens FORMAT text STREAM WITH progressive_disclosure, dedup(subject)")
    by_kind = {event["type"]: event for event in reversed(sent(assembly))}
    common = {"assembly_id": ID}
    assert by_kind["assembly_started"] == common | {
        "type": "assembly_started",
        "seq": 0,
        "name": "ctx",
        "intent": "tea",
        "source_count": 2,
        "budget": {"total": 300, "unit": "tokens"},
    }
    assert by_kind["source_started"] == common | {"type": "source_started", "seq": 1, "source": "s0", "index": 0}
    completed = by_kind["source_completed"]
    assert completed == common | {
        "type": "source_completed",
        "seq": 2,
        "source": "s0",
        "grain_count": 12,
        "total": 13,
        "estimated_tokens": assembly.sources[0].demand,
        "duration_ms": 0,
    }
    assert by_kind["dedup_completed"] == common | {"type": "dedup_completed", "seq": 5, "removed": 0, "remaining": 16}
    assert by_kind["budget_allocated"] == common | {
        "type": "budget_allocated",
        "seq": 6,
        "allocations": [
            {"source": "s0", "weight": 0.65, "allocated": assembly.sources[0].allocated},
            {"source": "s1", "weight": 0.35, "allocated": assembly.sources[1].allocated},
        ],
        "revised": False,
    }
    counts = assembly.disclosure()
    del counts["level"]
    decided = {"type": "disclosure_decided", "seq": 7, "level": "summary", "counts": counts}
    assert by_kind["disclosure_decided"] == common | decided
    chunk = by_kind["chunk"]
    assert set(chunk) - set(common) == {
        "type",
        "seq",
        "chunk_index",
        "content",
        "tokens",
        "budget_remaining",
        "source",
        "format",
    }
    chunks = sum(event["type"] == "chunk" for event in sent(assembly))
    assert by_kind["assembly_completed"]["summary"] == {
        "grain_count": len(assembly.items),
        "tokens_used": assembly.tokens_used,
        "budget": {"total": 300, "unit": "tokens"},
        "utilization": round(assembly.tokens_used / 300, 4),
        "disclosure": assembly.disclosure(),
        "sources_failed": [],
        "chunks": chunks,
        "warnings": [],
    }


@pytest.mark.requirement("CAL-11.4-failures")
def test_a_source_that_failed_is_told_and_its_share_given_away() -> None:
    events = sent(made("BUDGET 100 tokens FORMAT text STREAM", failed=True))
    completed = next(event for event in events if event["type"] == "source_completed")
    assert completed["error"] == {"code": "CAL-E031", "message": "It took too long."}
    error = next(event for event in events if event["type"] == "error")
    assert error == {
        "type": "error",
        "assembly_id": ID,
        "seq": 3,
        "code": "CAL-E031",
        "message": "It took too long.",
        "suggestion": "Ask for less.",
        "fatal": False,
        "source": "s0",
    }
    first, second = (event for event in events if event["type"] == "budget_allocated")
    assert (first["revised"], second["revised"]) == (False, True)
    assert [each["allocated"] for each in first["allocations"]] == [65, 35]
    assert second["allocations"][0]["allocated"] == 0
    assert events[-1]["summary"]["sources_failed"] == ["s0"]
    # Whatever is asked for.
    assert "error" in kinds(made("STREAM { chunks }", failed=True))


def test_a_grain_that_cannot_be_formatted_is_an_error_that_ends_nothing() -> None:
    assembly = made("STREAM { chunks }", by_source=((belief("\ud800"), belief("tea")),))
    events = sent(assembly)
    assert [event["type"] for event in events] == ["error", "chunk"]
    assert (events[0]["code"], events[0]["fatal"], events[0]["source"]) == ("CAL-E080", False, "s0")


def test_events_can_be_sent_as_they_happen() -> None:
    assembly = made("STREAM")
    feed = stream.Feed(assembly.statement.stream, ID)
    live = list(feed(stream.assembly_started(assembly.statement)))
    for index, source in enumerate(assembly.sources):
        live += feed(stream.source_started(source.label, index))
        live += feed(*stream.source_ended(source.result, source.demand))
    live += feed(*stream.outcome_events(assembly))
    assert live == sent(assembly)
    assert next(feed(stream.cancelled_event("the client left"))) == {
        "type": "cancelled",
        "assembly_id": ID,
        "seq": len(live),
        "reason": "the client left",
    }


# --- chunks -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-11.3-chunks")
@pytest.mark.parametrize("format_name", FORMATS)
def test_chunks_are_the_text_in_pieces_of_about_the_size_asked_for(format_name: str) -> None:
    assembly = made(f"BUDGET 2000 tokens FORMAT {format_name} STREAM {{ chunk_size = 40 }}")
    chunks = [event for event in sent(assembly) if event["type"] == "chunk"]
    assert "".join(chunk["content"] for chunk in chunks) == assembly.text
    assert [chunk["chunk_index"] for chunk in chunks] == list(range(len(chunks)))
    assert len(chunks) > 3
    assert all(chunk["tokens"] <= 80 for chunk in chunks)
    remaining = [chunk["budget_remaining"] for chunk in chunks]
    assert remaining == sorted(remaining, reverse=True)
    assert remaining[-1] == 2000 - assembly.used
    assert list(dict.fromkeys(chunk["source"] for chunk in chunks)) == ["s0", "s1"]
    if format_name != "json":
        assert all(chunk["content"].endswith("\n") for chunk in chunks[:-1])


def test_rows_stay_whole_and_the_header_of_toon_is_in_the_first_chunk() -> None:
    assembly = made("BUDGET 2000 tokens FORMAT toon STREAM { chunk_size = 20 }")
    chunks = [event["content"] for event in sent(assembly) if event["type"] == "chunk"]
    assert chunks[0].startswith("context: ctx\nintent: tea\ntokens: ")
    assert "beliefs[12]" in chunks[0]
    assert "".join(chunks).count("\n  ") == 16


def test_the_budget_of_grains_counts_down_in_grains() -> None:
    assembly = made("BUDGET 10 grains FORMAT text STREAM { chunk_size = 20 }")
    remaining = [event["budget_remaining"] for event in sent(assembly) if event["type"] == "chunk"]
    assert remaining[-1] == 0
    assert len(set(remaining)) == len(remaining)


def test_an_empty_text_has_no_chunks() -> None:
    assembly = made("BUDGET 1 tokens STREAM")
    assert assembly.text == ""
    assert sent(assembly)[-1]["summary"]["chunks"] == 0


TEMPLATE = "TEMPLATE { ELEMENT {\n- {{grain.content}}\n  {{grain.type}}\n} ELEMENT_OMIT { … } }"


@given(
    by_source=st.lists(st.lists(plain_items() | hostile_items(), max_size=6).map(tuple), min_size=1, max_size=3).map(
        tuple
    ),
    budget=st.sampled_from(["BUDGET 150 tokens", "BUDGET 1500 tokens", "BUDGET 6 grains"]),
    format_name=st.sampled_from([*FORMATS, TEMPLATE]),
    chunk_size=st.sampled_from([20, 100, 1000]),
)
def test_chunks_of_anything_put_together_are_exactly_the_text(
    by_source: tuple[tuple[ResultItem, ...], ...], budget: str, format_name: str, chunk_size: int
) -> None:
    assembly = made(f"{budget} FORMAT {format_name} STREAM {{ chunk_size = {chunk_size} }}", by_source=by_source)
    events = sent(assembly)
    assert "".join(event["content"] for event in events if event["type"] == "chunk") == assembly.text
    for event in events:
        assert json_text.parse(stream.encode_ndjson(event)) == event


# --- transports ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-11.5-frames")
def test_frames_are_those_of_server_sent_events_and_lines_of_json() -> None:
    event: stream.Event = {"type": "chunk", "assembly_id": ID, "seq": 3, "content": "a\n\ndata: b\r\n"}
    body = b'{"type":"chunk","assembly_id":"asm_a1b2c3d4","seq":3,"content":"a\\n\\ndata: b\\r\\n"}'
    assert stream.encode_sse(event) == b"event: chunk\ndata: " + body + b"\n\n"
    assert stream.encode_ndjson(event) == body + b"\n"
