"""Bundles of areev: the log of a store of grains, `MGB1`, or `MGB2` with a JSON document of settings first.

A record is `operation u8 | time i64 | hash 32 bytes | length u32 | grain`, numbers little-endian; the time is in
milliseconds, shifted by 16 bits. Operations are 1 add, 2 supersede and 3 forget. Its grains are those of OMS but for
liberties, which are read all the same: flag bit 5 over MessagePack, long names of fields, `derived_from` as one text.
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
    ImportDraft,
    Importer,
    Unreadable,
    read_texts,
)
from memoranda.bindings.files.importers.source import MAX_DOCUMENT_BYTES, ImportSource
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.model.instant import Instant
from memoranda.service.oms.views import to_json_value
from memoranda.standards.oms import canonical, cbor, schema
from memoranda.standards.oms.fields import expand_accepted
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.header import HEADER_BYTES, Header
from memoranda.standards.oms.mapping import project
from memoranda.standards.oms.normal import normalise

_MAGIC: Final = (b"MGB1", b"MGB2")
_RECORD: Final = struct.Struct("<Bq32sI")
_LENGTH: Final = struct.Struct("<I")
_ADD: Final = 1
_SUPERSEDE: Final = 2
_FORGET: Final = 3
_TIME_SHIFT: Final = 16
# The scope of areev's own audit entries, which are left out.
_AUDIT: Final = "agent:authz"


class _LogRecord(NamedTuple):
    operation: int
    at: Instant
    address: str
    blob: bytes


def _recognise(source: ImportSource) -> float:
    return 1.0 if source.head.startswith(_MAGIC) else 0.0


def _read_areev(source: ImportSource) -> Iterator[DraftResult]:
    superseded_at: dict[str, Instant] = {}
    forgotten: set[str] = set()
    for record in _read_records(source):
        if record.operation == _FORGET:
            forgotten.add(record.address)
        elif record.operation == _SUPERSEDE and record.blob:
            # A record that adds the grain comes, too, and reports the error of an invalid one.
            with suppress(MemorandaError):
                superseded_at.update(
                    (name, record.at)
                    for name in read_texts(_parse_grain(record).fields, "derived_from")
                )
    for record in _read_records(source):
        if record.operation != _ADD or record.address in forgotten or not record.blob:
            continue
        location = f"{source.name}: {record.address}"
        try:
            draft = _build_draft(record, location, superseded_at.get(record.address))
        except MemorandaError as error:
            yield Unreadable(location, error)
        else:
            if draft.scope != _AUDIT:
                yield draft


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
    schema.check(fields, head.type_byte)
    return Grain(fields, str(fields.get("type")), head.type_byte, record.address, blob, head)


def _build_draft(record: _LogRecord, location: str, superseded_at: Instant | None) -> ImportDraft:
    grain = _parse_grain(record)
    fields, projection = grain.fields, project(grain, "")
    return ImportDraft(
        where=location,
        id=record.address,
        text=projection.text,
        original=to_json_value(dict(fields)),
        user=projection.scope.user,
        scope=projection.scope.space,
        session=projection.scope.session,
        kind=projection.kind,
        tags=projection.tags,
        created=projection.created,
        updated=superseded_at,
        valid_from=projection.valid_from if "valid_from" in fields else None,
        valid_to=projection.valid_to if superseded_at is None else superseded_at,
        confidence=projection.confidence,
        parent=next(iter(read_texts(fields, "derived_from")), ""),
        metadata={"grain_type": grain.type_name},
    )


AREEV: Final = Importer(
    name="areev",
    title="areev",
    recognise=_recognise,
    read_drafts=_read_areev,
    mapping=(
        FieldMapping(
            "added grain: its text",
            "`value`, as through OMS; its type is `metadata.grain_type`",
        ),
        FieldMapping("content address", "`key`"),
        FieldMapping("`namespace`", "scope"),
        FieldMapping("`user_id`", "owner half of `namespace`"),
        FieldMapping("`session_id`", "session"),
        FieldMapping(
            "`structural_tags`, `confidence`, `created_at`",
            "`tags`, `metadata.confidence`, `created_at`",
        ),
        FieldMapping("`valid_from`, `valid_to`", "valid time"),
        FieldMapping("superseded grain", "true until then; the new one has it as `parent_id`"),
        FieldMapping("forgotten grain", "left out"),
        FieldMapping("notes in `agent:authz`, settings of `MGB2`", "left out"),
    ),
)
