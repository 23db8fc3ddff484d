"""Bundles of areev: the log of a store of grains, `MGB1`, or `MGB2` with a JSON document of settings first.

A record is `operation u8 | time i64 | hash 32 bytes | length u32 | grain`, numbers little-endian; the time is in
milliseconds, shifted by 16 bits. Operations are 1 add, 2 supersede and 3 forget.

Its grains are those of OMS but for liberties: flag bit 5 over MessagePack, long names of fields, `derived_from` as one
text, an action without `input`. A valid grain is imported with its bytes. Any other one is written again, and its
address in areev remains a name of it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Final, NamedTuple

from memoranda.bindings.files.importers.importer import (
    DraftResult,
    FieldMapping,
    Importer,
    ImportGrain,
    Unreadable,
    read_texts,
)
from memoranda.bindings.files.importers.source import MAX_DOCUMENT_BYTES, ImportSource
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.model.instant import Instant
from memoranda.standards.oms import canonical, cbor, schema
from memoranda.standards.oms.fields import expand_accepted
from memoranda.standards.oms.grains import Grain, decode, encode
from memoranda.standards.oms.header import HEADER_BYTES, Header
from memoranda.standards.oms.manifest import DEFAULT, IndexState
from memoranda.standards.oms.normal import normalise

_MAGIC: Final = (b"MGB1", b"MGB2")
_RECORD: Final = struct.Struct("<Bq32sI")
_LENGTH: Final = struct.Struct("<I")
_ADD: Final = 1
_SUPERSEDE: Final = 2
_FORGET: Final = 3
_TIME_SHIFT: Final = 16
# The names of an action, which areev writes without its input if it had none.
_ACTIONS: Final = ("action", "tool")
# The namespace of areev's own audit entries, which are left out.
_AUDIT: Final = "agent:authz"


class _LogRecord(NamedTuple):
    operation: int
    at: Instant
    address: str
    blob: bytes


def _recognise(source: ImportSource) -> float:
    return 1.0 if source.head.startswith(_MAGIC) else 0.0


def _read_areev(source: ImportSource) -> Iterator[DraftResult]:
    successors: dict[str, _LogRecord] = {}
    forgotten: set[str] = set()
    for record in _read_records(source):
        if record.operation == _FORGET:
            forgotten.add(record.address)
        elif record.operation == _SUPERSEDE and record.blob:
            # A record that adds the grain comes, too, and reports the error of an invalid one.
            with suppress(MemorandaError):
                for name in read_texts(_parse_grain(record).fields, "derived_from"):
                    successors[name] = record
    for record in _read_records(source):
        if record.operation != _ADD or record.address in forgotten or not record.blob:
            continue
        location = f"{source.name}: {record.address}"
        try:
            grain = _parse_grain(record)
            result = _build_result(record, grain, location, successors.get(record.address))
        except MemorandaError as error:
            yield Unreadable(location, error)
        else:
            if grain.fields.get("namespace") != _AUDIT:
                yield result


def _build_result(
    record: _LogRecord, grain: Grain, location: str, successor: _LogRecord | None
) -> ImportGrain:
    """Return a grain with its bytes if OMS allows them, or else written again. Raises GrainError."""
    delivery, alias = record.blob, ""
    if not _is_valid(record):
        rebuilt = encode(
            grain.fields,
            sensitivity=grain.header.sensitivity,
            type_byte=grain.type_byte,
            default_namespace=None,
        )
        delivery, alias = rebuilt.blob, record.address
    index = DEFAULT
    if successor is not None:
        index = IndexState(superseded_by=successor.address, system_valid_to=successor.at)
    user = grain.fields.get("user_id")
    return ImportGrain(
        where=location,
        delivery=delivery,
        index=index,
        alias=alias,
        user=user if isinstance(user, str) else "",
    )


def _is_valid(record: _LogRecord) -> bool:
    try:
        decode(record.blob, address=record.address)
    except MemorandaError:
        return False
    return True


def _read_records(source: ImportSource) -> Iterator[_LogRecord]:
    """Yield the records of the log. Raises InvalidInput if it is cut short."""
    with source.open_member() as file:
        if file.read(4) == _MAGIC[1]:
            _read_exactly(
                file, _LENGTH.unpack(_read_exactly(file, _LENGTH.size, source))[0], source
            )
        while start := file.read(1):
            operation, time, address, length = _RECORD.unpack(
                start + _read_exactly(file, _RECORD.size - 1, source)
            )
            blob = _read_exactly(file, length, source)
            # A time before 1970 counts as 1970.
            yield _LogRecord(operation, Instant(max(0, time) >> _TIME_SHIFT), address.hex(), blob)


def _read_exactly(file: IO[bytes], count: int, source: ImportSource) -> bytes:
    if count > MAX_DOCUMENT_BYTES:
        raise InvalidInput(f"{source.name}: a record of {count} bytes, which no grain has")
    data = file.read(count)
    if len(data) < count:
        raise InvalidInput(f"{source.name}: the bundle is cut short")
    return data


def _parse_grain(record: _LogRecord) -> Grain:
    """Parse the grain of a record. Raises InvalidInput or GrainError."""
    blob = record.blob
    head = Header.parse(blob)
    if hashlib.sha256(blob).hexdigest() != record.address:
        raise InvalidInput("these bytes are not the grain that they are called")
    payload = blob[HEADER_BYTES:]
    # No byte begins a map in both encodings.
    decoded = (
        canonical.unpack(payload)
        if payload[0] in canonical.MAP_LEADS
        else cbor.decode_value(payload)
    )
    if not isinstance(decoded, dict) or not all(isinstance(name, str) for name in decoded):
        raise InvalidInput("the grain is not a map of fields")
    # Its encoding may differ from ours, but its values are of the kinds that a grain can contain.
    normalise(decoded)
    fields: dict[str, object] = expand_accepted(decoded, head.type_byte)
    if isinstance(fields.get("derived_from"), str):
        fields["derived_from"] = [fields["derived_from"]]
    if fields.get("type") in _ACTIONS:
        fields.setdefault("input", {})
    schema.check(fields, head.type_byte)
    return Grain(fields, str(fields.get("type")), head.type_byte, record.address, blob, head)


AREEV: Final = Importer(
    name="areev",
    title="areev",
    recognise=_recognise,
    read_drafts=_read_areev,
    has_grains=True,
    mapping=(
        FieldMapping("valid grain", "a grain with the same bytes and address"),
        FieldMapping(
            "other grain", "written again by the rules of OMS; its address remains a name of it"
        ),
        FieldMapping("action without `input`", "`input` is empty"),
        FieldMapping("`namespace`, `user_id`, `session_id`", "kept, as in an `.mg` file"),
        FieldMapping("superseded grain", "superseded at that time by the new one"),
        FieldMapping("forgotten grain", "left out"),
        FieldMapping("notes in `agent:authz`, settings of `MGB2`", "left out"),
    ),
)
