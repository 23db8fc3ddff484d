"""Reports on files of grains, as plain values for people and programs: verification and description."""

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
from memoranda.service.oms.views import to_json_value
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


# --- verifying ---------------------------------------------------------------------------------------


class FileCheck(msgspec.Struct, kw_only=True):
    """The result of verifying a file.

    For a damaged container also the number of grains in its header, and of those that can be recovered.
    """

    source: str
    report: Report
    announced: int | None = None
    recoverable: int | None = None


def verify(source: str, progress: Progress) -> FileCheck:
    """Check the checksum of a container, every grain and every signature; the report has the problems.

    Raises MemorandaError only for a file that cannot be opened or has no grains as bytes.
    """
    file_check = FileCheck(source=source, report=Report())
    with open_grains(source) as file:
        kind = detect_kind(file)
        if kind == "container":
            _verify_container(file_check, file, progress)
            return file_check
        if kind == "fields":
            raise InvalidInput("fields in JSON have no bytes to verify; pack or sign them first")
        try:
            signature.open_delivery(read_all(file))
        except MemorandaError as error:
            file_check.report.refuse(source, "", error)
        else:
            file_check.report.verified = 1
    return file_check


def _verify_container(file_check: FileCheck, file: IO[bytes], progress: Progress) -> None:
    with scratch_file() as spool:
        try:
            reader = ContainerReader(file, spool=spool)
            reader.verify(progress)
        except MemorandaError as error:
            _find_damage(file_check, file, error)
            return
        file_check.report.verified = file_check.announced = len(reader)


def _find_damage(file_check: FileCheck, file: IO[bytes], error: MemorandaError) -> None:
    """Refuse the damaged grains of a container, or the file if none of them explains the error."""
    source, grain_report = file_check.source, Report()
    recoverable = 0
    try:
        announced = FileHeader.parse(container.read_at(file, 0, container.HEADER_BYTES)).count
        for recoverable, delivery in enumerate(container_reader.recover(file), start=1):
            try:
                signature.open_delivery(delivery)
            except MemorandaError as refused:
                location = f"{source}: grain {recoverable}"
                grain_report.refuse(location, "", refused, number=recoverable)
    except MemorandaError:
        file_check.report.refuse(source, "", error)
        return
    file_check.announced, file_check.recoverable = announced, recoverable
    if all(error.message != refusal.message for refusal in grain_report.refusals):
        file_check.report.refuse(source, "", error)
    file_check.report.verified = recoverable - grain_report.refused
    file_check.report.add(grain_report)


# --- describing --------------------------------------------------------------------------------------


def describe(source: str, *, address: str | None, limit: int) -> dict[str, Any]:
    """Return the contents of a file as plain values: its first grains, or the one with an address.

    A container also has its header and counts. Raises NotFound if no grain has the address.
    """
    with open_grains(source) as file:
        kind = detect_kind(file)
        if kind == "container":
            with open_container(file) as reader:
                return {"file": source, "kind": kind, **_describe_container(reader, address, limit)}
        if kind == "fields":
            built = (grains.encode(fields) for fields in read_fields(file))
            matching = (grain for grain in built if address in (None, grain.address))
            chosen_grains = list(islice(matching, limit))
            if address is not None and not chosen_grains:
                raise NotFound("it holds no grain with this address")
            return {
                "file": source,
                "kind": kind,
                "grains": [
                    _grain_document(grain, grain.blob, None, None) for grain in chosen_grains
                ],
            }
        document = describe_grain(read_all(file))
        if address not in (None, document["address"]):
            raise NotFound(f"it holds the grain {document['address']}")
        return {"file": source, "kind": kind, "grains": [document]}


def _describe_container(
    reader: ContainerReader, address: str | None, limit: int
) -> dict[str, object]:
    if address is not None:
        # A grain with the right address is intact, so the checksum of the container is not needed.
        return {"grains": [describe_grain(signature.delivery_of(reader.find(address)))]}
    reader.check_footer()
    states = dict(reader.states())
    types: Counter[str] = Counter()
    documents: list[dict[str, object]] = []
    signed_count = 0
    for delivery in reader.deliveries():
        blob = signature.blob_of(delivery)
        types[_type_name(header.read_type_byte(blob))] += 1
        signed_count += signature.is_envelope(delivery)
        if len(documents) < limit:
            state = states.get(grains.address_of(blob), DEFAULT)
            documents.append(
                {
                    **describe_grain(delivery),
                    **({"index": _index_document(state)} if state != DEFAULT else {}),
                }
            )
    file_header = reader.header
    return {
        "count": file_header.count,
        "flags": [name for bit, name in _FILE_FLAG_NAMES if file_header.flags & bit],
        "codec": _CODECS[file_header.codec],
        "checksum_ok": True,
        "types": dict(sorted(types.items())),
        "signed": signed_count,
        "manifest": {
            "entries": len(states),
            "superseded": sum(state.superseded_by is not None for state in states.values()),
            **Counter(state.verification_status for state in states.values()),
        },
        "grains": documents,
    }


def describe_grain(delivery: bytes) -> dict[str, object]:
    """Return a grain as plain values; an invalid signature is a value, too, not an error."""
    try:
        opened_delivery = signature.open_delivery(delivery)
    except SignatureInvalid as error:
        return _grain_document(
            grains.decode(signature.blob_of(delivery)), delivery, None, error.message
        )
    if isinstance(opened_delivery, SignedGrain):
        return _grain_document(opened_delivery.grain, delivery, opened_delivery, None)
    return _grain_document(opened_delivery, delivery, None, None)


def _grain_document(
    grain: Grain, delivery: bytes, signed_grain: SignedGrain | None, doubt: str | None
) -> dict[str, object]:
    document: dict[str, object] = {
        "address": grain.address,
        "type": grain.type_name,
        "bytes": len(delivery),
        "header": _header_document(grain.header),
        "sensitivity": grain.header.sensitivity_name,
    }
    if signed_grain is not None:
        issued = signed_grain.issued_at
        document["signer"] = signed_grain.signer
        document["signature_ok"] = True
        if issued is not None:
            document["issued_at"] = _format_seconds(issued)
            document["issued_at_is_signed"] = signed_grain.issued_at_is_signed
    elif doubt is not None:
        document |= {"signature_ok": False, "signature_problem": doubt}
    return {**document, "fields": to_json_value(grain.fields)}


def _header_document(head: Header) -> dict[str, object]:
    return {
        "version": head.version,
        "flags": [name for bit, name in _FLAG_NAMES if head.flags & bit],
        "type_byte": f"0x{head.type_byte:02x}",
        "namespace_hash": f"{head.ns_hash:04x}",
        "created_at": _format_seconds(head.created_at_sec),
    }


def _format_seconds(seconds: float) -> str | float:
    """Return seconds since 1970 as a date and time, or as they are if they are out of the range of a calendar."""
    milliseconds = seconds * 1_000
    return format_instant(round(milliseconds)) if EARLIEST <= milliseconds <= LATEST else seconds


def _type_name(byte: int) -> str:
    grain_type = BY_BYTE.get(byte)
    return grain_type.name if grain_type is not None else f"0x{byte:02x}"


def _index_document(state: IndexState) -> dict[str, object]:
    fields: Mapping[str, object] = {
        "superseded_by": state.superseded_by,
        "system_valid_to": None
        if state.system_valid_to is None
        else _format_seconds(state.system_valid_to / 1000),
        "verification_status": state.verification_status,
    }
    return {name: value for name, value in fields.items() if value is not None}
