"""The index state of a grain, which a store keeps outside its bytes, and its form in `.mg` files (OMS sections 5.6 and
11.7).

The portable fields mean the same everywhere: successor, end of validity and verification status. The local fields are
the statistics of one store. None of them is part of a grain, its address or its signature.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

import msgspec

from memoranda.errors import GrainError
from memoranda.model.instant import EARLIEST, LATEST, Instant
from memoranda.model.oms_names import check_address
from memoranda.standards.oms import canonical, cbor
from memoranda.standards.oms.normal import MAX_INTEGER
from memoranda.standards.oms.scan import Scanner

UNVERIFIED: Final = "unverified"
# From careless to careful: if two stores disagree, the more careful status wins.
STATUSES: Final = (UNVERIFIED, "verified", "contested", "retracted")

_RECORD_NAME: Final = re.compile(r"urn:ump:[a-z2-7]{1,128}")
_ADDRESS: Final = re.compile(r"[0-9a-f]{64}")
# Names: two for each of 500 versions. A store that was brought up to date longer ago than that gets a second branch.
MAX_SUPERSEDED: Final = 1_000

# Characters. Such a record has a signature, times and names, about a thousand characters.
_MAX_RECORD_CHARS: Final = 65_536

_MSGPACK_MAP_16, _MSGPACK_MAP_32 = 0xDE, 0xDF
_CBOR_MAP = 5


class IndexState(msgspec.Struct, frozen=True, kw_only=True):
    """The index fields of one grain; times are milliseconds."""

    superseded_by: str | None = None
    system_valid_to: int | None = None
    verification_status: str = UNVERIFIED
    access_count: int = 0
    last_accessed_at: int | None = None
    # The UMP name of the successor. Ours; other readers skip it.
    successor_name: str | None = None
    # The members that its UMP record had outside the document, as JSON. Not in OMS.
    record: str | None = None
    # Addresses and ids of earlier versions that are not in the file, the latest first. Not in OMS.
    supersedes: tuple[str, ...] = ()
    # The start of its validity, if the document states another one. Not in OMS.
    valid_from: int | None = None

    def __post_init__(self) -> None:
        if self.record is not None and not (
            type(self.record) is str and len(self.record) <= _MAX_RECORD_CHARS
        ):
            raise GrainError(
                f"memoranda:record must be text of at most {_MAX_RECORD_CHARS} characters",
                oms_code="ERR_SCHEMA",
            )
        if self.successor_name is not None and not _RECORD_NAME.fullmatch(str(self.successor_name)):
            raise GrainError(
                "memoranda:successor must be the name of a UMP record, such as urn:ump:…",
                oms_code="ERR_SCHEMA",
            )
        if len(self.supersedes) > MAX_SUPERSEDED or not all(map(_is_version_name, self.supersedes)):
            raise GrainError(
                "memoranda:supersedes is not a list of addresses and names", oms_code="ERR_SCHEMA"
            )
        if self.superseded_by is not None:
            if not isinstance(self.superseded_by, str):
                raise GrainError("superseded_by is not an address", oms_code="ERR_SCHEMA")
            check_address(self.superseded_by)
        if self.verification_status not in STATUSES:
            raise GrainError(
                "verification_status is not one of " + "|".join(STATUSES), oms_code="ERR_SCHEMA"
            )
        if self.valid_from is not None and not (
            type(self.valid_from) is int and EARLIEST <= self.valid_from <= LATEST
        ):
            raise GrainError("memoranda:valid_from is not an instant", oms_code="ERR_RANGE")
        for number in (self.system_valid_to, self.access_count, self.last_accessed_at):
            if number is not None and not (type(number) is int and 0 <= number <= MAX_INTEGER):
                raise GrainError(
                    "an index field must be a non-negative integer", oms_code="ERR_RANGE"
                )

    @property
    def begins(self) -> Instant | None:
        """The start of its validity, if the document states another one."""
        return None if self.valid_from is None else Instant(self.valid_from)

    def portable_fields(self) -> dict[str, object]:
        """Return the fields that are transferred to another store."""
        portable = (
            "superseded_by",
            "system_valid_to",
            "verification_status",
            "successor_name",
            "record",
            "valid_from",
        )
        values = {name: getattr(self, name) for name in portable}
        stated_values = {name: value for name, value in values.items() if value is not None}
        return (
            {**stated_values, "supersedes": list(self.supersedes)}
            if self.supersedes
            else stated_values
        )

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the state that another store knows of a grain, from JSON. Raises GrainError."""
        names = fields.get("supersedes", [])
        if not isinstance(names, list):
            raise GrainError(
                "memoranda:supersedes is not a list of addresses and names", oms_code="ERR_SCHEMA"
            )
        return cls(**{**fields, "supersedes": tuple(names)})


def _is_version_name(name: object) -> bool:
    """Return True for the address of a grain or the id of a record."""
    return isinstance(name, str) and bool(_RECORD_NAME.fullmatch(name) or _ADDRESS.fullmatch(name))


DEFAULT: Final = IndexState()
# Section 6.1: the short key of each field.
_KEYS: Final = {
    "sb": "superseded_by",
    "svt": "system_valid_to",
    "vstatus": "verification_status",
    "ac": "access_count",
    "laa": "last_accessed_at",
    "memoranda:successor": "successor_name",
    "memoranda:record": "record",
    "memoranda:supersedes": "supersedes",
    "memoranda:valid_from": "valid_from",
}


def merge(our_state: IndexState, their_state: IndexState) -> IndexState:
    """Merge the portable fields of an import (section 11.7), symmetrically; the local fields stay ours.

    The earlier supersession wins, because a closed grain cannot be superseded again; one with a time wins over one
    without. The more careful of two verification statuses wins.
    """
    superseded_by, system_valid_to = min(
        _supersession_of(our_state), _supersession_of(their_state), key=_supersession_order
    )
    successor_name = None
    if our_state.superseded_by == superseded_by:
        successor_name = our_state.successor_name
    elif their_state.superseded_by == superseded_by:
        successor_name = their_state.successor_name
    return IndexState(
        superseded_by=superseded_by,
        system_valid_to=system_valid_to,
        verification_status=max(
            our_state.verification_status, their_state.verification_status, key=STATUSES.index
        ),
        access_count=our_state.access_count,
        last_accessed_at=our_state.last_accessed_at,
        successor_name=successor_name,
        record=our_state.record or their_state.record,
        supersedes=our_state.supersedes or their_state.supersedes,
        valid_from=our_state.valid_from
        if our_state.valid_from is not None
        else their_state.valid_from,
    )


def _supersession_of(state: IndexState) -> tuple[str | None, int | None]:
    """Return the successor and the end of a state."""
    return state.superseded_by, state.system_valid_to


def _supersession_order(supersession: tuple[str | None, int | None]) -> tuple[bool, int, bool, str]:
    """Return the sort key of a supersession: earlier ones first, those without a time last."""
    superseded_by, system_valid_to = supersession
    return (
        system_valid_to is None,
        system_valid_to or 0,
        superseded_by is None,
        superseded_by or "",
    )


def encode_head(count: int, *, is_cbor: bool) -> bytes:
    """Encode the head of a manifest with this many entries."""
    if is_cbor:
        return encode_cbor_map_head(count)
    if count < 16:
        return bytes((0x80 | count,))
    if count < 1 << 16:
        return bytes((_MSGPACK_MAP_16,)) + count.to_bytes(2, "big")
    return bytes((_MSGPACK_MAP_32,)) + count.to_bytes(4, "big")


def encode_cbor_map_head(count: int) -> bytes:
    """Encode the head of a CBOR map with this many entries.

    Raises ValueError for more entries than a file can have grains.
    """
    if count < 24:
        return bytes((_CBOR_MAP << 5 | count,))
    for code, size in ((24, 1), (25, 2), (26, 4)):
        if count < 1 << 8 * size:
            return bytes((_CBOR_MAP << 5 | code,)) + count.to_bytes(size, "big")
    raise ValueError("more entries than a file has grains")


def encode_entry(address: str, state: IndexState, *, is_cbor: bool) -> bytes:
    """Encode one entry: the fields that differ from the defaults. Write entries in the order of their addresses."""
    wire = {}
    for key, name in _KEYS.items():
        value = getattr(state, name)
        if value != getattr(DEFAULT, name):
            wire[key] = list(value) if type(value) is tuple else value
    encode = cbor.encode_value if is_cbor else canonical.encode_value
    return encode(address) + encode(wire)


def read_entries(scanner: Scanner) -> Iterator[tuple[str, IndexState]]:
    """Yield the entries of a manifest. Raises GrainError.

    Unknown fields are skipped: later versions of OMS have more.
    """
    lead = scanner.peek()
    is_cbor = lead >> 5 == _CBOR_MAP
    decode = cbor.decode_value if is_cbor else canonical.decode_value
    previous = ""
    for _ in range(_read_count(scanner, is_cbor=is_cbor)):
        address = decode(scanner.read_value(cbor=is_cbor))
        if not isinstance(address, str):
            raise _corrupt_error("a key is not an address")
        if check_address(address) <= previous:
            raise _corrupt_error("its addresses are not in order, or one occurs twice")
        previous = address
        yield address, _parse_state(decode(scanner.read_value(cbor=is_cbor)))
    if not scanner.is_at_end():
        raise _corrupt_error("data follows its end")


def _read_count(scanner: Scanner, *, is_cbor: bool) -> int:
    """Read the head of the map and return its number of entries."""
    lead = scanner.read_bytes(1)[0]
    if is_cbor:
        low = lead & 0x1F
        if low > 26:
            raise _corrupt_error("it does not begin as a map")
        count = low if low < 24 else int.from_bytes(scanner.read_bytes(1 << low - 24), "big")
    elif lead >> 4 == 0x8:
        count = lead & 0x0F
    elif lead in (_MSGPACK_MAP_16, _MSGPACK_MAP_32):
        count = int.from_bytes(scanner.read_bytes(2 if lead == _MSGPACK_MAP_16 else 4), "big")
    else:
        raise _corrupt_error("it does not begin as a map")
    if lead != encode_head(count, is_cbor=is_cbor)[0]:
        raise _corrupt_error("its length is not in the shortest form")
    return count


def _parse_state(wire: object) -> IndexState:
    """Build the state of one entry. Raises GrainError."""
    if not isinstance(wire, dict):
        raise _corrupt_error("an entry is not a map")
    return IndexState.from_fields(
        {_KEYS[key]: value for key, value in wire.items() if key in _KEYS}
    )


def _corrupt_error(why: str) -> GrainError:
    """Return the error of a malformed manifest."""
    return GrainError(f"the index manifest is malformed: {why}", oms_code="ERR_CORRUPT")
