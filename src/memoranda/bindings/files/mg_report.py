"""What a file of grains holds and whether it is whole, as plain values for people and programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import IO, Any, Final

import msgspec

from memoranda.bindings.files.mg import (
    Progress,
    detect_kind,
    open_container,
    open_grains,
    read_all,
    read_fields,
    scratch_file,
)
from memoranda.errors import InvalidInput, MemorandaError, NotFound, SignatureInvalid
from memoranda.model.instant import EARLIEST, LATEST, format_instant
from memoranda.service.exchange.report import Report
from memoranda.service.oms.views import jsonable
from memoranda.standards.oms import container, container_reader, grains, header, signature
from memoranda.standards.oms.container import FileHeader
from memoranda.standards.oms.container_reader import ContainerReader
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.header import Header
from memoranda.standards.oms.manifest import DEFAULT, IndexState
from memoranda.standards.oms.registry import BY_BYTE
from memoranda.standards.oms.signature import SignedGrain

_FLAG_NAMES: Final = (
    (header.SIGNED, "signed"),
    (header.ENCRYPTED, "encrypted"),
    (header.COMPRESSED, "compressed"),
    (header.CONTENT_REFS, "content_refs"),
    (header.EMBEDDING_REFS, "embedding_refs"),
    (header.CBOR, "cbor"),
)
_FILE_FLAG_NAMES: Final = (
    (container.SORTED, "sorted"),
    (container.DEDUPLICATED, "deduplicated"),
    (container.COMPRESSED, "compressed"),
    (container.FIELD_MAP, "field_map"),
    (container.MANIFEST, "manifest"),
)
_CODECS: Final = {container.CODEC_NONE: "none", container.CODEC_ZSTD: "zstd"}


# --- judging -----------------------------------------------------------------------------------------


class FileCheck(msgspec.Struct, kw_only=True):
    """What a check of one file found; of a damaged container, how many of its grains are whole."""

    source: str
    report: Report
    announced: int | None = None
    recoverable: int | None = None


def verify(source: str, progress: Progress) -> FileCheck:
    """Check a file: the container's checksum, every grain and every signature. Only reading it at all can raise."""
    checked = FileCheck(source=source, report=Report())
    with open_grains(source) as file:
        kind = detect_kind(file)
        if kind == "container":
            _verify_container(checked, file, progress)
            return checked
        if kind == "fields":
            raise InvalidInput("fields in JSON have no bytes to verify; pack or sign them first")
        try:
            signature.open_delivery(read_all(file))
        except MemorandaError as error:
            checked.report.refuse(source, "", error)
        else:
            checked.report.verified = 1
    return checked


def _verify_container(checked: FileCheck, file: IO[bytes], progress: Progress) -> None:
    with scratch_file() as spool:
        try:
            reader = ContainerReader(file, spool=spool)
            reader.verify(progress)
        except MemorandaError as error:
            _find_damage(checked, file, error)
            return
        checked.report.verified = checked.announced = len(reader)


def _find_damage(checked: FileCheck, file: IO[bytes], error: MemorandaError) -> None:
    """Which grains are to blame, or, if the file as a whole is, how much of it can be saved."""
    source, found = checked.source, Report()
    whole = 0
    try:
        announced = FileHeader.parse(container.read_at(file, 0, container.HEADER_BYTES)).count
        for whole, delivery in enumerate(container_reader.recover(file), start=1):
            try:
                signature.open_delivery(delivery)
            except MemorandaError as refused:
                found.refuse(f"{source}: grain {whole}", "", refused, number=whole)
    except MemorandaError:
        checked.report.refuse(source, "", error)
        return
    checked.announced, checked.recoverable = announced, whole
    if all(error.message != each.message for each in found.refusals):
        checked.report.refuse(source, "", error)
    checked.report.verified = whole - found.refused
    checked.report.add(found)


# --- describing --------------------------------------------------------------------------------------


def describe(source: str, *, address: str | None, limit: int) -> dict[str, Any]:
    """What a file holds, as plain values: of a container the whole and its first grains, or the one asked for."""
    with open_grains(source) as file:
        kind = detect_kind(file)
        if kind == "container":
            with open_container(file) as reader:
                return {"file": source, "kind": kind, **_describe_container(reader, address, limit)}
        if kind == "fields":
            made = (grains.encode(fields) for fields in read_fields(file))
            chosen = list(islice((each for each in made if address in (None, each.address)), limit))
            if address is not None and not chosen:
                raise NotFound("it holds no grain with this address")
            return {
                "file": source,
                "kind": kind,
                "grains": [_grain_document(each, each.blob, None, None) for each in chosen],
            }
        shown = describe_grain(read_all(file))
        if address not in (None, shown["address"]):
            raise NotFound(f"it holds the grain {shown['address']}")
        return {"file": source, "kind": kind, "grains": [shown]}


def _describe_container(reader: ContainerReader, address: str | None, limit: int) -> dict[str, Any]:
    if address is not None:
        # What is found by its address proves itself: no need to read the rest.
        return {"grains": [describe_grain(signature.delivery_of(reader.find(address)))]}
    reader.check_footer()
    states = dict(reader.states())
    types: Counter[str] = Counter()
    shown: list[dict[str, Any]] = []
    signed = 0
    for delivery in reader.deliveries():
        blob = signature.blob_of(delivery)
        types[_type_name(header.read_type_byte(blob))] += 1
        signed += signature.is_envelope(delivery)
        if len(shown) < limit:
            state = states.get(grains.address_of(blob), DEFAULT)
            shown.append(
                {
                    **describe_grain(delivery),
                    **({"index": _index_document(state)} if state != DEFAULT else {}),
                }
            )
    head = reader.header
    return {
        "count": head.count,
        "flags": [name for bit, name in _FILE_FLAG_NAMES if head.flags & bit],
        "codec": _CODECS[head.codec],
        "checksum_ok": True,
        "types": dict(sorted(types.items())),
        "signed": signed,
        "manifest": {
            "entries": len(states),
            "superseded": sum(state.superseded_by is not None for state in states.values()),
            **Counter(state.verification_status for state in states.values()),
        },
        "grains": shown,
    }


def describe_grain(delivery: bytes) -> dict[str, Any]:
    """One grain as plain values. A signature that does not hold is told, not raised."""
    try:
        found = signature.open_delivery(delivery)
    except SignatureInvalid as error:
        return _grain_document(
            grains.decode(signature.blob_of(delivery)), delivery, None, error.message
        )
    if isinstance(found, SignedGrain):
        return _grain_document(found.grain, delivery, found, None)
    return _grain_document(found, delivery, None, None)


def _grain_document(
    grain: Grain, delivery: bytes, signed: SignedGrain | None, doubt: str | None
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "address": grain.address,
        "type": grain.type_name,
        "bytes": len(delivery),
        "header": _header_document(grain.header),
        "sensitivity": grain.header.sensitivity_name,
    }
    if signed is not None:
        issued = signed.issued_at
        document["signer"] = signed.signer
        document["signature_ok"] = True
        if issued is not None:
            document["issued_at"] = _format_seconds(issued)
            document["issued_at_is_signed"] = signed.issued_at_is_signed
    elif doubt is not None:
        document |= {"signature_ok": False, "signature_problem": doubt}
    return {**document, "fields": jsonable(grain.fields)}


def _header_document(head: Header) -> dict[str, Any]:
    return {
        "version": head.version,
        "flags": [name for bit, name in _FLAG_NAMES if head.flags & bit],
        "type_byte": f"0x{head.type_byte:02x}",
        "namespace_hash": f"{head.ns_hash:04x}",
        "created_at": _format_seconds(head.created_at_sec),
    }


def _format_seconds(seconds: float) -> str | float:
    """Return a time as people read it, or the number itself when no calendar reaches that far."""
    milliseconds = seconds * 1_000
    return format_instant(round(milliseconds)) if EARLIEST <= milliseconds <= LATEST else seconds


def _type_name(byte: int) -> str:
    known = BY_BYTE.get(byte)
    return known.name if known is not None else f"0x{byte:02x}"


def _index_document(state: IndexState) -> dict[str, Any]:
    known: Mapping[str, Any] = {
        "superseded_by": state.superseded_by,
        "system_valid_to": None
        if state.system_valid_to is None
        else _format_seconds(state.system_valid_to / 1000),
        "verification_status": state.verification_status,
    }
    return {name: value for name, value in known.items() if value is not None}
