"""Index state beside the grains: carried, merged, never part of a grain."""

from __future__ import annotations

import contextlib
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.oms.files import VERIFIED, reader, some_grains, written
from tests.standards.oms.published import refused

from memoranda.errors import MemorandaError
from memoranda.model.instant import EARLIEST, LATEST
from memoranda.standards.oms import canonical, cbor, manifest
from memoranda.standards.oms.manifest import DEFAULT, STATUSES, IndexState, merge
from memoranda.standards.oms.scan import Scanner

ADDRESSES = st.binary(min_size=32, max_size=32).map(bytes.hex)
TIMES = st.integers(0, 2**64 - 1)
STATES = st.builds(
    IndexState,
    superseded_by=st.none() | ADDRESSES,
    system_valid_to=st.none() | TIMES,
    verification_status=st.sampled_from(STATUSES),
    access_count=TIMES,
    last_accessed_at=st.none() | TIMES,
    valid_from=st.none() | st.integers(EARLIEST, LATEST),
)
A, B = "a" * 64, "b" * 64


def encoded(states: dict[str, IndexState], *, is_cbor: bool) -> bytes:
    entries = (manifest.encode_entry(address, states[address], is_cbor=is_cbor) for address in sorted(states))
    return manifest.encode_head(len(states), is_cbor=is_cbor) + b"".join(entries)


@pytest.mark.requirement("OMS-11.7-manifest")
def test_the_manifest_lies_between_grains_and_footer_under_short_keys() -> None:
    one, two, three = some_grains()
    state = IndexState(
        superseded_by=two.address, system_valid_to=1737000000000, verification_status="contested", access_count=42
    )
    data = written([one, two, three], [state, DEFAULT, IndexState(last_accessed_at=7)], order="given")
    expected = canonical.encode_value(
        {
            one.address: {"sb": two.address, "svt": 1737000000000, "vstatus": "contested", "ac": 42},
            three.address: {"laa": 7},
        }
    )
    assert data[3] & 0x10
    assert data[16 + 12 + len(one.blob + two.blob + three.blob) : -32] == expected
    assert dict(reader(data).states()) == {one.address: state, three.address: IndexState(last_accessed_at=7)}


@pytest.mark.requirement("OMS-11.7-manifest")
def test_without_anything_to_say_there_is_no_manifest() -> None:
    data = written(some_grains(), [DEFAULT, IndexState()])
    assert not data[3] & 0x10
    assert dict(reader(data).states()) == {}


@pytest.mark.requirement("OMS-11.7-manifest")
def test_the_manifest_of_cbor_grains_is_cbor() -> None:
    items = some_grains(3, cbor=True)
    data = written(items, [VERIFIED])
    expected = cbor.encode_value({items[0].address: {"vstatus": "verified"}})
    assert data[:-32].endswith(expected)
    assert dict(reader(data).states()) == {items[0].address: VERIFIED}
    mixed = written([*items, *some_grains()], [VERIFIED])
    assert mixed[:-32].endswith(canonical.encode_value({items[0].address: {"vstatus": "verified"}}))


@pytest.mark.requirement("OMS-11.7-never-in-blobs")
def test_index_state_changes_no_grain() -> None:
    plain, noted = reader(written(some_grains())), reader(written(some_grains(), [VERIFIED] * 3))
    assert list(plain) == list(noted)


@given(st.dictionaries(ADDRESSES, STATES, max_size=30), st.booleans())
def test_what_is_written_is_read_and_is_one_canonical_map(states: dict[str, IndexState], is_cbor: bool) -> None:
    states = {address: state for address, state in states.items() if state != DEFAULT}
    data = encoded(states, is_cbor=is_cbor)
    assert dict(manifest.read_entries(Scanner([data]))) == states
    decoded = (cbor if is_cbor else canonical).decode_value(data)
    assert decoded.keys() == states.keys()


@pytest.mark.parametrize("is_cbor", [False, True])
@pytest.mark.parametrize("count", [0, 15, 16, 23, 24, 255, 256, 65535, 65536])
def test_heads_of_all_sizes(count: int, is_cbor: bool) -> None:
    states = {hashlib.sha256(n.to_bytes(4)).hexdigest(): VERIFIED for n in range(count)}
    data = encoded(states, is_cbor=is_cbor)
    assert sum(1 for _ in manifest.read_entries(Scanner([data]))) == count
    assert data[:9].startswith((cbor if is_cbor else canonical).encode_value({str(n): 1 for n in range(count)})[:1])


@pytest.mark.requirement("OMS-11.7-merge")
@given(STATES, STATES, STATES)
def test_merging_is_the_same_in_any_order_and_grouping(one: IndexState, two: IndexState, three: IndexState) -> None:
    def portable(state: IndexState) -> tuple[object, ...]:
        return state.superseded_by, state.system_valid_to, state.verification_status

    assert portable(merge(one, two)) == portable(merge(two, one))
    assert portable(merge(merge(one, two), three)) == portable(merge(one, merge(two, three)))
    assert merge(one, one) == one
    assert merge(one, DEFAULT) == one
    assert portable(merge(DEFAULT, one)) == portable(one)


@pytest.mark.requirement("OMS-11.7-merge")
def test_the_first_supersession_and_the_more_careful_verdict_stand() -> None:
    ours = IndexState(superseded_by=B, system_valid_to=100, verification_status="verified", access_count=5)
    theirs = IndexState(superseded_by=A, system_valid_to=200, verification_status="contested", access_count=9)
    assert merge(ours, theirs) == IndexState(
        superseded_by=B, system_valid_to=100, verification_status="contested", access_count=5
    )
    undated = IndexState(superseded_by=A)
    assert merge(undated, ours).superseded_by == B
    assert merge(undated, IndexState(superseded_by=B)).superseded_by == A
    assert merge(DEFAULT, undated).superseded_by == A


def test_states_that_cannot_be_are_refused() -> None:
    with refused("ERR_SCHEMA"):
        IndexState(verification_status="fine")
    with refused("ERR_HASH_LENGTH"):
        IndexState(superseded_by="abc")
    with refused("ERR_RANGE"):
        IndexState(access_count=-1)


def test_later_versions_may_say_more() -> None:
    data = canonical.encode_value({A: {"vstatus": "verified", "rstat": "accepted"}})
    assert dict(manifest.read_entries(Scanner([data]))) == {A: VERIFIED}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x00",
        b"\x81",
        b"\xc0",
        b"\x90",
        b"\xde\x00\x00",
        b"\xdf\x00\x00\x00\x01" + canonical.encode_value(A) + b"\x80",
        b"\xb8\x01" + cbor.encode_value(A) + b"\xa0",
        b"\xbb" + b"\xff" * 8,
        b"\xbf\xff",
        b"\x81\x01\x80",
        b"\x81" + canonical.encode_value(A) + b"\x90",
        b"\x82" + (canonical.encode_value(A) + b"\x80") * 2,
        b"\x82" + canonical.encode_value(B) + b"\x80" + canonical.encode_value(A) + b"\x80",
        canonical.encode_value({A.upper(): {"ac": 1}}),
        canonical.encode_value({A: {"ac": -1}}),
        canonical.encode_value({A: {"ac": True}}),
        canonical.encode_value({A: {"ac": 1.0}}),
        canonical.encode_value({A: {"sb": 7}}),
        canonical.encode_value({A: {"sb": "x"}}),
        canonical.encode_value({A: {"svt": "x"}}),
        canonical.encode_value({A: {"vstatus": 7}}),
        canonical.encode_value({A: {"vstatus": []}}),
        canonical.encode_value({A: {"memoranda:valid_from": "x"}}),
        canonical.encode_value({A: {"memoranda:valid_from": 2**60}}),
    ],
)
def test_malformed_manifests_are_refused(data: bytes) -> None:
    with pytest.raises(MemorandaError):
        list(manifest.read_entries(Scanner([data])))


@given(st.binary(max_size=60))
def test_arbitrary_bytes_raise_only_our_errors(data: bytes) -> None:
    for start in (b"", b"\x81" + canonical.encode_value(A), b"\xa1" + cbor.encode_value(A)):
        with contextlib.suppress(MemorandaError):
            list(manifest.read_entries(Scanner([start + data])))
