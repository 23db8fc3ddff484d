"""What is true when it is asked of is found, and nothing else is, whatever the word index knows of when it ends."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda.model.instant import Instant, format_instant, parse_instant
from tests.service.world import START, World

HOUR = 3_600_000
BEGIN = parse_instant(START)


class Note(NamedTuple):
    """Hours from the beginning: since when it is true, until when, how long it is kept, and what became of it."""

    since: int
    until: int | None
    kept: int | None
    fate: str


NOTES = st.lists(
    st.builds(
        Note,
        st.integers(-3, 6),
        st.none() | st.integers(7, 12),
        st.none() | st.integers(1, 12),
        st.sampled_from(("stays", "stays", "stays", "revised", "forgotten")),
    ),
    min_size=1,
    max_size=8,
)


def at(hours: int) -> str:
    return format_instant(Instant(BEGIN + hours * HOUR))


def written(world: World, notes: list[Note]) -> None:
    for number, note in enumerate(notes):
        time = {"valid_from": at(note.since), "observed": START, "created": START}
        time |= {} if note.until is None else {"valid_to": at(note.until)}
        consent = {} if note.kept is None else {"retention": f"PT{note.kept}H"}
        name = world.remember(f"kettle number{number}", time=time, consent=consent)
        if note.fate == "revised":
            world.revise(name, body={"text": f"pot number{number}"})
        elif note.fate == "forgotten":
            world.forget(name)


def is_true(note: Note, now: int, moment: int) -> bool:
    is_kept = note.kept is None or note.kept > now
    return note.fate == "stays" and is_kept and note.since <= moment and (note.until is None or moment < note.until)


@settings(max_examples=40, deadline=None)
@given(NOTES, st.lists(st.tuples(st.integers(0, 13), st.none() | st.integers(1, 13)), min_size=1, max_size=4))
def test_what_is_true_when_it_is_asked_of_is_found_and_nothing_else(
    notes: list[Note], askings: list[tuple[int, int | None]]
) -> None:
    world = World()
    try:
        written(world, notes)
        for now, valid_at in sorted(askings, key=lambda each: each[0]):
            world.now = Instant(BEGIN + now * HOUR)
            asked = {} if valid_at is None else {"valid_at": at(valid_at)}
            found = {each.record["body"]["text"] for each in world.recall("kettle", limit=50, filter=asked)}
            moment = now if valid_at is None else valid_at
            assert found == {f"kettle number{n}" for n, each in enumerate(notes) if is_true(each, now, moment)}
    finally:
        world.service.close()
