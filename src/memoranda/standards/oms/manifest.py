"""What a store knows about a grain beside its bytes, and how a `.mg` file carries it (OMS sections 5.6 and 11.7).

The portable fields mean the same everywhere: superseded by what, until when, and how verified. The local ones are
one store's statistics. None of them is part of a grain, its address or its signature.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

import msgspec

from memoranda.errors import GrainError
from memoranda.standards.oms import canonical, cbor
from memoranda.standards.oms.grains import check_address
from memoranda.standards.oms.normal import MAX_INTEGER
from memoranda.standards.oms.scan import Scanner

UNVERIFIED: Final = "unverified"
# From careless to careful: where two stores disagree, the more careful word stands.
STATUSES: Final = (UNVERIFIED, "verified", "contested", "retracted")

_RECORD_NAME: Final = re.compile(r"urn:ump:[a-z2-7]{1,128}")
_ADDRESS: Final = re.compile(r"[0-9a-f]{64}")
# Two names for each of 500 versions; who was brought up to date longer ago than that has a branch of its own.
MAX_SUPERSEDED: Final = 1_000

# A signature, times and names: a thousand of them.
_MAX_RECORD_CHARS: Final = 65_536

_MSGPACK_MAP_16, _MSGPACK_MAP_32 = 0xDE, 0xDF
_CBOR_MAP = 5


class IndexState(msgspec.Struct, frozen=True, kw_only=True):
    """The index-layer fields of one grain; times are milliseconds."""

    superseded_by: str | None = None
    system_valid_to: int | None = None
    verification_status: str = UNVERIFIED
    access_count: int = 0
    last_accessed_at: int | None = None
    # What UMP calls the successor; ours, and passed over by other readers.
    successor_name: str | None = None
    # What the record that it came as said beside its document, as JSON; ours, too.
    record: str | None = None
    # Addresses and ids of the earlier versions of its memory, the latest first, where they do not come along; ours.
    supersedes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.record is not None and not (type(self.record) is str and len(self.record) <= _MAX_RECORD_CHARS):
            raise GrainError("memoranda:record is not what a record says", oms_code="ERR_SCHEMA")
        if self.successor_name is not None and not _RECORD_NAME.fullmatch(str(self.successor_name)):
            raise GrainError("memoranda:successor is not the name of a record", oms_code="ERR_SCHEMA")
        if len(self.supersedes) > MAX_SUPERSEDED or not all(map(_is_name, self.supersedes)):
            raise GrainError("memoranda:supersedes is not a list of addresses and names", oms_code="ERR_SCHEMA")
        if self.superseded_by is not None:
            if not isinstance(self.superseded_by, str):
                raise GrainError("superseded_by is not an address", oms_code="ERR_SCHEMA")
            check_address(self.superseded_by)
        if self.verification_status not in STATUSES:
            raise GrainError("verification_status is not one of " + "|".join(STATUSES), oms_code="ERR_SCHEMA")
        for number in (self.system_valid_to, self.access_count, self.last_accessed_at):
            if number is not None and not (type(number) is int and 0 <= number <= MAX_INTEGER):
                raise GrainError("an index field is not a number from zero up", oms_code="ERR_RANGE")

    def known(self) -> dict[str, Any]:
        """What of it travels to another store, by its names here."""
        carried = ("superseded_by", "system_valid_to", "verification_status", "successor_name", "record")
        known = {name: value for name in carried if (value := getattr(self, name)) is not None}
        return {**known, "supersedes": list(self.supersedes)} if self.supersedes else known

    @classmethod
    def of(cls, known: Mapping[str, Any]) -> Self:
        """Return what another store knows of a grain, from JSON. Raises GrainError."""
        names = known.get("supersedes", [])
        if not isinstance(names, list):
            raise GrainError("memoranda:supersedes is not a list of addresses and names", oms_code="ERR_SCHEMA")
        return cls(**{**known, "supersedes": tuple(names)})


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(_RECORD_NAME.fullmatch(name) or _ADDRESS.fullmatch(name))


DEFAULT: Final = IndexState()
# Section 6.1: the short key of each.
_KEYS: Final = {
    "sb": "superseded_by",
    "svt": "system_valid_to",
    "vstatus": "verification_status",
    "ac": "access_count",
    "laa": "last_accessed_at",
    "memoranda:successor": "successor_name",
    "memoranda:record": "record",
    "memoranda:supersedes": "supersedes",
}


def merge(ours: IndexState, theirs: IndexState) -> IndexState:
    """Section 11.7, import: portable fields are united, ours and theirs in either order; the local ones stay ours.

    The supersession that came first stands, because a closed grain cannot be superseded again; one with a time goes
    before one without. Of two verdicts the more careful one stands.
    """
    superseded_by, system_valid_to = min(_closing(ours), _closing(theirs), key=_closing_order)
    return IndexState(
        superseded_by=superseded_by,
        system_valid_to=system_valid_to,
        verification_status=max(ours.verification_status, theirs.verification_status, key=STATUSES.index),
        access_count=ours.access_count,
        last_accessed_at=ours.last_accessed_at,
        successor_name=next(
            (each.successor_name for each in (ours, theirs) if each.superseded_by == superseded_by), None
        ),
        record=ours.record or theirs.record,
        supersedes=ours.supersedes or theirs.supersedes,
    )


def _closing(state: IndexState) -> tuple[str | None, int | None]:
    return state.superseded_by, state.system_valid_to


def _closing_order(closing: tuple[str | None, int | None]) -> tuple[bool, int, bool, str]:
    superseded_by, system_valid_to = closing
    return (system_valid_to is None, system_valid_to or 0, superseded_by is None, superseded_by or "")


def head(count: int, *, is_cbor: bool) -> bytes:
    """How a manifest of so many entries begins."""
    if is_cbor:
        return cbor_map_head(count)
    if count < 16:
        return bytes((0x80 | count,))
    if count < 1 << 16:
        return bytes((_MSGPACK_MAP_16,)) + count.to_bytes(2, "big")
    return bytes((_MSGPACK_MAP_32,)) + count.to_bytes(4, "big")


def cbor_map_head(count: int) -> bytes:
    """The head of a CBOR map of so many entries."""
    if count < 24:
        return bytes((_CBOR_MAP << 5 | count,))
    for code, size in ((24, 1), (25, 2), (26, 4)):
        if count < 1 << 8 * size:
            return bytes((_CBOR_MAP << 5 | code,)) + count.to_bytes(size, "big")
    raise ValueError("more entries than a file has grains")


def entry(address: str, state: IndexState, *, is_cbor: bool) -> bytes:
    """One entry, with what differs from the defaults; entries follow one another in the order of their addresses."""
    wire = {key: getattr(state, name) for key, name in _KEYS.items() if getattr(state, name) != getattr(DEFAULT, name)}
    if state.supersedes:
        wire["memoranda:supersedes"] = list(state.supersedes)
    encode = cbor.encode_value if is_cbor else canonical.encode_value
    return encode(address) + encode(wire)


def read(scanner: Scanner) -> Iterator[tuple[str, IndexState]]:
    """The entries of a manifest, one at a time. Raises GrainError.

    Fields we do not know are passed over: later versions have more of them.
    """
    lead = scanner.peek()
    is_cbor = lead >> 5 == _CBOR_MAP
    decode = cbor.decode_value if is_cbor else canonical.decode_value
    previous = ""
    for _ in range(_count(scanner, is_cbor=is_cbor)):
        address = decode(scanner.value(cbor=is_cbor))
        if not isinstance(address, str):
            raise _corrupt("a key is not an address")
        if check_address(address) <= previous:
            raise _corrupt("its addresses are not in order, or one stands twice")
        previous = address
        yield address, _state(decode(scanner.value(cbor=is_cbor)))
    if not scanner.is_at_end():
        raise _corrupt("something follows its end")


def _count(scanner: Scanner, *, is_cbor: bool) -> int:
    lead = scanner.read(1)[0]
    if is_cbor:
        low = lead & 0x1F
        if low > 26:
            raise _corrupt("it does not begin as a map")
        count = low if low < 24 else int.from_bytes(scanner.read(1 << low - 24), "big")
    elif lead >> 4 == 0x8:
        count = lead & 0x0F
    elif lead in (_MSGPACK_MAP_16, _MSGPACK_MAP_32):
        count = int.from_bytes(scanner.read(2 if lead == _MSGPACK_MAP_16 else 4), "big")
    else:
        raise _corrupt("it does not begin as a map")
    if lead != head(count, is_cbor=is_cbor)[0]:
        raise _corrupt("its length is not in the shortest form")
    return count


def _state(wire: Any) -> IndexState:
    if not isinstance(wire, dict):
        raise _corrupt("an entry is not a map")
    return IndexState.of({_KEYS[key]: value for key, value in wire.items() if key in _KEYS})


def _corrupt(why: str) -> GrainError:
    return GrainError(f"the index manifest is malformed: {why}", oms_code="ERR_CORRUPT")
