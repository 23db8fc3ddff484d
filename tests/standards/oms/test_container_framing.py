"""Grains on a stream."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.oms.files import signed_grain, some_grains
from tests.standards.oms.published import refused

from memoranda.errors import MemorandaError, TooLarge
from memoranda.standards.oms.framing import frame, unframe
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.signature import SignedGrain, open_delivery

ITEMS: list[Grain | SignedGrain] = [*some_grains(), signed_grain()]
STREAM = b"".join(frame(ITEMS))


@pytest.mark.requirement("OMS-11.6-framing")
def test_a_stream_byte_for_byte() -> None:
    (grain,) = some_grains(1)
    assert b"".join(frame([grain])) == len(grain.blob).to_bytes(4, "big") + grain.blob + bytes(4)
    assert b"".join(frame([])) == bytes(4)


@pytest.mark.requirement("OMS-11.6-framing")
@given(st.lists(st.integers(1, len(STREAM)), max_size=12))
def test_a_stream_may_arrive_in_any_pieces(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in pairwise(places)]
    assert [open_delivery(delivery) for delivery in unframe(pieces)] == ITEMS


def test_frames_are_handed_over_as_soon_as_they_are_whole() -> None:
    def pieces() -> Iterator[bytes]:
        yield STREAM[: 4 + len(some_grains(1)[0].blob)]
        raise AssertionError("nobody asked for more")

    assert next(unframe(pieces())) == some_grains(1)[0].blob


@pytest.mark.requirement("OMS-11.6-framing")
def test_a_stream_that_breaks_off_or_goes_on_is_refused() -> None:
    for size in range(len(STREAM)):
        with refused("ERR_CORRUPT"):
            list(unframe([STREAM[:size]]))
    with refused("ERR_CORRUPT", "after its end"):
        list(unframe([STREAM, b"\x00"]))


def test_a_frame_over_the_limit_is_refused_before_it_is_read() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"\xff\xff\xff\xff"
        raise AssertionError("nobody asked for more")

    with pytest.raises(TooLarge):
        next(unframe(pieces()))
    with pytest.raises(TooLarge):
        list(unframe([STREAM], max_frame_bytes=10))


@given(st.binary(max_size=60))
def test_arbitrary_bytes_raise_only_our_errors(data: bytes) -> None:
    try:
        for delivery in unframe([data]):
            assert delivery in data
    except MemorandaError:
        pass
