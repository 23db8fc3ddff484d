"""Every published and derived query of CAL, run on a store: valid ones work, and each refusal in its real situation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

import pytest
from msgspec import structs
from msgspec.structs import replace

from memoranda.errors import QueryError
from memoranda.service.cal.session import CalSettings, Switches
from memoranda.service.service import Service
from memoranda.standards.cal.language.canonical import canonical
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.language.syntax import (
    Add,
    Assemble,
    Hash,
    History,
    ParsedQuery,
    Revert,
    Statement,
    Supersede,
)
from memoranda.storage.index.segment_reader import ReadableSegment
from memoranda.storage.index.word_index import WordIndex
from tests.service.cal_samples import Stores
from tests.service.world import World
from tests.standards.cal.published import EXAMPLES, text_of

VALID: Final = [each for each in EXAMPLES if each["phase"] == "static" and each["valid"]]
INVALID: Final = [each for each in EXAMPLES if each["phase"] == "static" and not each["valid"]]
RUNTIME: Final = [each for each in EXAMPLES if each["phase"] == "runtime"]
# Values for parameters that an example leaves open.
NUMBERS: Final = {"n": 5, "o": 2}
WORDS: Final = {"s": "ada", "o": "tea"}
# The addresses of these two beliefs begin alike.
TWINS: Final = ("19671", "33919")

Situation = Callable[[World, str], dict[str, Any] | list[dict[str, Any]]]


def run(world: World, text: str, **more: Any) -> dict[str, Any]:
    return world.service.cal.run(world.owner, text, approve=True, **more)


def on_host(world: World, host: CalSettings) -> Service:
    """The same store, of a host that has decided otherwise."""
    return Service(structs.replace(world.context, cal=host))


# --- valid -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled() -> Iterator[World]:
    """Grains of every type, memories of another standard beside them, and the template that one example uses."""
    world = World()
    Stores(random=Random(1), world=world).happen(120)
    run(world, "DEFINE TEMPLATE mytemplate ELEMENT { {{grain.content}} }")
    yield world
    world.service.close()


def pointed(world: World, statement: Statement) -> Statement:
    """The statement about a belief that is here, where the example names a hash of nothing."""
    if not isinstance(statement, Supersede | Revert | History) or statement.hash is None:
        return statement
    if isinstance(statement, History) and statement.diff is None:
        return statement
    # Otherwise the quotas of these examples would add up.
    world.advance(60_000)
    old = world.put(object=f"number {world.now}")
    new = world.supersede(old, object=f"another {world.now}")
    made = replace(statement, hash=Hash(text=f"sha256:{new}"))
    return replace(made, diff=Hash(text=f"sha256:{old}")) if isinstance(made, History) else made


@pytest.mark.requirement("CAL-vectors-valid")
@pytest.mark.parametrize("example", VALID, ids=lambda example: example["query"][:40])
def test_every_valid_example_runs(filled: World, example: dict[str, Any]) -> None:
    query = parse(text_of(example))
    text = canonical(ParsedQuery(statement=pointed(filled, query.statement), lets=query.lets))
    is_add = isinstance(query.statement, Add)
    if is_add:
        filled.advance(60_000)
    answer = run(filled, text, params=example.get("params", WORDS if is_add else NUMBERS))
    assert answer["_cal"]["version"] == "1.0"
    found = [warning["code"] for warning in answer["warnings"]]
    # Running may warn of more, such as an option without effect, but never of less.
    assert set(example.get("warnings", ())) <= set(found)
    if isinstance(query.statement, Assemble):
        assert answer["formatted_context"]["text"] is not None


@pytest.mark.parametrize("example", INVALID, ids=lambda example: example["query"][:40])
def test_every_invalid_example_is_refused_before_anything_is_read(world: World, example: dict[str, Any]) -> None:
    given: Any = bytes.fromhex(example["query_bytes_hex"]) if "query_bytes_hex" in example else text_of(example)
    with pytest.raises(QueryError) as caught:
        run(world, given, params=example.get("params"))
    assert caught.value.cal_code == example["expected_error"]


# --- refused only when run -------------------------------------------------------------------------------


def about(text: str, address: str) -> str:
    """The example with the hash of a grain that is here."""
    statement: Any = parse(text).statement
    return canonical(ParsedQuery(statement=replace(statement, hash=Hash(text=f"sha256:{address}"))))


def an_event(world: World, text: str) -> dict[str, Any]:
    return run(world, about(text, world.put(type="event", content="hello")))


def another_namespace(world: World, text: str) -> dict[str, Any]:
    return run(world, about(text, world.put(namespace="elsewhere")))


def as_it_is(world: World, text: str) -> dict[str, Any]:
    return run(world, text)


def eleventh_supersede(world: World, text: str) -> dict[str, Any]:
    for number in range(10):
        run(world, about(text, world.put(object=str(number))))
    return run(world, about(text, world.put(object="the eleventh")))


def sixth_revert(world: World, text: str) -> dict[str, Any]:
    for number in range(5):
        run(world, about(text, world.supersede(world.put(object=str(number)), object=f"not {number}")))
    return run(world, about(text, world.supersede(world.put(object="the sixth"), object="not")))


def twenty_first_add(world: World, text: str) -> dict[str, Any]:
    for _ in range(20):
        run(world, text)
    return run(world, text)


def tier_off(world: World, text: str) -> dict[str, Any]:
    service = on_host(world, CalSettings(switches=Switches(tier1=False)))
    return service.cal.run(world.owner, text, approve=True)


def no_time(world: World, text: str) -> dict[str, Any]:
    world.put()
    service = on_host(world, CalSettings(query_seconds=-1.0, assemble_seconds=-1.0))
    return service.cal.run(world.owner, text)


def fifty_templates(world: World, text: str) -> dict[str, Any]:
    for number in range(1, 51):
        run(world, f"DEFINE TEMPLATE t{number} ELEMENT {{ x }}")
    return run(world, text)


def twins(world: World, text: str) -> dict[str, Any]:
    found = [world.put(subject="a", relation="b", object=each, confidence=0.5) for each in TWINS]
    prefix = found[0][:8]
    assert found[1].startswith(prefix)
    return run(world, text.replace("a1b2c3d4", prefix))


def every_source_fails(world: World, text: str) -> dict[str, Any]:
    """As printed neither source can fail alone; with an ambiguous hash each does."""
    found = [world.put(subject="a", relation="b", object=each, confidence=0.5) for each in TWINS]
    where = f"WHERE hash = sha256:{found[0][:8]}"
    return run(world, text.replace("beliefs", f"beliefs {where}").replace("goals", f"goals {where}"))


class Choosy:
    """A counter of tokens that cannot count everything."""

    name = "choosy"

    def count(self, text: str) -> int:
        if "uncountable" in text:
            raise ValueError("uncountable")
        return len(text)


def one_grain_unprintable(world: World, text: str) -> list[dict[str, Any]]:
    world.put(object="uncountable")
    world.put(object="tea")
    events = list(on_host(world, CalSettings(counter=Choosy())).cal.stream(world.owner, text))
    assert events[-1]["type"] == "assembly_completed"
    return [dict(event) for event in events]


SITUATIONS: Final[dict[str, Situation]] = {
    "target is an event": an_event,
    "eleventh SUPERSEDE within one minute": eleventh_supersede,
    "sixth REVERT within one minute": sixth_revert,
    "Tier 1 disabled": tier_off,
    "target in another namespace": another_namespace,
    "unknown hash": as_it_is,
    "21st ADD within one minute": twenty_first_add,
    "store slower than 5,000 ms": no_time,
    "slower than 10,000 ms": no_time,
    "every source failed": every_source_fails,
    "unknown template": as_it_is,
    "namespace already holds 50": fifty_templates,
    "n bound to 5000": lambda world, text: run(world, text, params={"n": 5000}),
    'n bound to "ten"': lambda world, text: run(world, text, params={"n": "ten"}),
    "prefix matches two grains": twins,
}
# What cannot be brought about through the service, and why.
ELSEWHERE: Final = {
    "host has no streaming": "this host always streams; CAL-E079 is for statements that are no ASSEMBLE",
    "more than 10 s after completion": "no stream is kept once it has ended, so there is nothing to reconnect to",
}
EVENTS: Final = "one grain cannot be formatted: error event, the stream goes on"


def test_every_runtime_example_has_its_situation() -> None:
    assert {each["note"] for each in RUNTIME} == {*SITUATIONS, *ELSEWHERE, EVENTS}


@pytest.mark.requirement("CAL-vectors-runtime")
@pytest.mark.parametrize(
    "example",
    [each for each in RUNTIME if each["note"] in SITUATIONS],
    ids=lambda example: f"{example['expected_error']} {example['note']}",
)
def test_every_runtime_refusal_comes_in_its_situation(world: World, example: dict[str, Any]) -> None:
    with pytest.raises(QueryError) as caught:
        SITUATIONS[example["note"]](world, text_of(example))
    assert caught.value.cal_code == example["expected_error"]
    assert caught.value.suggestion


@pytest.mark.requirement("CAL-vectors-runtime")
def test_a_grain_that_cannot_be_formatted_is_an_event_and_the_stream_goes_on(world: World) -> None:
    (example,) = (each for each in RUNTIME if each["note"] == EVENTS)
    events = one_grain_unprintable(world, text_of(example))
    (error,) = (event for event in events if event["type"] == "error")
    assert (error["code"], error["fatal"]) == (example["expected_error"], False)
    assert any(event["type"] == "chunk" for event in events)


@pytest.mark.requirement("CAL-vectors-runtime")
def test_only_an_assemble_streams(world: World) -> None:
    (event,) = world.service.cal.stream(world.owner, "RECALL beliefs")
    assert (event["type"], event["code"]) == ("error", "CAL-E079")


@pytest.mark.requirement("CAL-17.3-quota-window")
def test_a_quota_is_free_again_after_a_minute(world: World) -> None:
    text = 'ADD belief SET subject = "s" SET relation = "r" SET object = "o" REASON "x"'
    for _ in range(20):
        run(world, text)
    with pytest.raises(QueryError) as caught:
        run(world, text)
    assert caught.value.cal_code == "CAL-E052"
    world.advance(60_000)
    assert run(world, text)["operation"] == "add"


def test_reading_the_word_index_for_the_first_time_is_not_the_questions_fault(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put(subject="ada", relation="drinks", object="green tea", confidence=0.9)
    passed = 0.0
    read = WordIndex.segments

    def slowly(index: WordIndex) -> list[ReadableSegment]:
        nonlocal passed
        passed += 0.0 if passed else 60.0
        return read(index)

    monkeypatch.setattr(WordIndex, "segments", slowly)
    monkeypatch.setattr("time.monotonic", lambda: passed)
    assert run(world, 'RECALL LIKE "tea"')["total"] == 1
    assert passed == 60.0
