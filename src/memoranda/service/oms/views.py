"""Memories of any standard as grains: their bytes, their address, and whether a caller may see them completely.

A grain is complete or it is a different grain: a caller who may see only a part of a memory does not see its grain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from memoranda.encoding.bases import base64_encode
from memoranda.errors import InvalidInput
from memoranda.model.memory import Document, Version
from memoranda.retrieval.analysis import keywords
from memoranda.service.core.access import Access
from memoranda.service.core.compliance import may_read_personal
from memoranda.service.core.context import Context
from memoranda.service.core.indexing import as_grain
from memoranda.service.core.memory_line import bind_to_line
from memoranda.service.core.secret_screening import refuse_secrets, screen_fields
from memoranda.service.core.views import is_intact, outline_record, project, scope_of
from memoranda.service.retrieve import sees_everything
from memoranda.standards.oms import grains as codec
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms import signature
from memoranda.standards.oms.container import CheckedGrain
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.manifest import DEFAULT, UNVERIFIED, IndexState
from memoranda.standards.oms.signature import SignedGrain
from memoranda.standards.port import port_of
from memoranda.standards.ump import mapping as ump
from memoranda.standards.ump import rules
from memoranda.standards.ump.record import Record
from memoranda.storage.engine.contract import Snapshot

# A grain as a caller passes it: its fields, or its bytes, bare or in a signed envelope.
GrainInput = Mapping[str, Any] | bytes


class OpenedGrain(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded grain whose signature, if it has one, is valid."""

    grain: Grain
    delivery: bytes
    signer: str | None


def open_grain_input(
    context: Context, grain_input: GrainInput, *, is_new: bool = True
) -> OpenedGrain:
    """Decode or encode a grain and verify its signature. A new one is screened for secrets.

    Raises GrainError, InvalidInput, and the error of the policy on secrets.
    """
    if isinstance(grain_input, bytes):
        delivery = signature.open_delivery(grain_input, context.did_documents)
        grain = delivery.grain if isinstance(delivery, SignedGrain) else delivery
        if is_new:
            refuse_secrets(context, grain.fields)
        if isinstance(delivery, SignedGrain):
            return OpenedGrain(
                grain=delivery.grain, delivery=delivery.envelope, signer=delivery.signer
            )
        return OpenedGrain(grain=delivery, delivery=delivery.blob, signer=None)
    if not isinstance(grain_input, Mapping):
        raise InvalidInput("a grain must be an object of its fields, or its bytes")
    grain = codec.encode(screen_fields(context, grain_input))
    return OpenedGrain(grain=grain, delivery=grain.blob, signer=None)


class StoredGrain(msgspec.Struct, frozen=True, kw_only=True):
    """A grain with its stored bytes, its fields, and its index entry."""

    address: str
    delivery: bytes
    grain: Grain
    index: IndexState
    is_held: bool = False
    needs_review: bool = False
    # False if the memory was written through another standard and this is its view.
    is_native: bool = True
    # The verified writer, if an unsigned grain names another author.
    writer: str = ""

    def document(self) -> dict[str, Any]:
        """Return the grain as JSON with full field names, and its index entry."""
        index = {
            "superseded_by": self.index.superseded_by,
            "system_valid_to": self.index.system_valid_to,
            "verification_status": self.index.verification_status,
        }
        return {
            "address": self.address,
            "grain": to_json_value(self.grain.fields),
            "index": {name: value for name, value in index.items() if value is not None},
            "held": self.is_held,
            "needs_review": self.needs_review,
            "native": self.is_native,
            **({"written_by": self.writer} if self.writer else {}),
        }


def is_visible(
    context: Context,
    access: Access,
    snapshot: Snapshot,
    version: Version,
    type_byte: int | None = None,
) -> bool:
    """Return True if the caller may see a version completely."""
    if version.state.erased or not is_intact(version):
        return False
    if type_byte is not None and as_grain(context, version)[0].type_byte != type_byte:
        return False
    if sees_everything(access, version.tenant):
        return True
    version = bind_to_line(context, snapshot, version)
    record = outline_record(context, version)
    scope = scope_of(record)
    if scope["visibility"] not in access.visibilities(version.tenant) or not access.allows_scope(
        scope
    ):
        return False
    if needs_redaction(access, record):
        return False
    return may_read_personal(context, access, snapshot, version)


def needs_redaction(access: Access, record: Record) -> bool:
    """Return True if the caller may see only a part of a record (UMP §2.7)."""
    return not access.sees_unredacted(record["scope"]["owner"]) and rules.redact(record)[1]


def to_stored_grain(context: Context, version: Version) -> StoredGrain:
    """Return a version as a grain: itself, the grain that it carries, or its view."""
    grain, delivery = as_grain(context, version)
    is_native = oms.owns(version.document)
    state = version.state
    return StoredGrain(
        address=grain.address,
        delivery=delivery,
        grain=grain,
        index=_index_state(context, version),
        is_held=state.has_legal_hold,
        needs_review=state.needs_review,
        is_native=is_native,
        writer="" if version.bounds is None else version.bounds.writer,
    )


def _index_state(context: Context, version: Version) -> IndexState:
    """Return the index entry of a version as an `.mg` file holds it."""
    state = version.state
    if not state.superseded_by and state.closed is None and state.verification == UNVERIFIED:
        return DEFAULT
    return IndexState(
        superseded_by=_successor_address(context, version),
        system_valid_to=state.closed,
        verification_status=state.verification,
        successor_name=state.successor_names.get(ump.STANDARD),
    )


def deliver(context: Context, versions: Sequence[Version]) -> list[tuple[bytes, IndexState]]:
    """Return versions as the bytes of an export, with their index entries."""
    return [(_delivery(context, version), _index_state(context, version)) for version in versions]


def _delivery(context: Context, version: Version) -> bytes:
    """Return the bytes of a version in an export."""
    if oms.owns(version.document):
        # Checked on import, and its hash again when it was read.
        return CheckedGrain.of(version.document.native, version.document.name)
    if find_embedding_address(context, version.document, version.tenant) is not None:
        # An OAMS memory that carries another document: its own key, times and source are exported, too.
        outside = port_of(version.document.standard).exported(version.document)
        return oms.from_projection(project(context, version), outside).blob
    return as_grain(context, version)[1]


def find_embedding_address(context: Context, document: Document, tenant: str) -> str | None:
    """Return the address of a memory that carries another document; its grain in a file has another address."""
    original = port_of(document.standard).original(
        document, tenant, ump_version=context.ump_version
    )
    if original is None:
        return None
    inner = original.document
    return (
        inner.name if oms.owns(inner) else oms.from_projection(original.projection, inner).address
    )


def _successor_address(context: Context, version: Version) -> str | None:
    """Return the address of the version that superseded this one; None if there is none."""
    names = version.state.successor_names
    if not version.state.superseded_by or oms.STANDARD in names:
        return names.get(oms.STANDARD)
    with context.engine.open_snapshot(version.tenant) as snapshot:
        # Some standards keep the name of a revised memory, so the successor's UMP id is tried first.
        named_successor = (
            snapshot.find_by_name(ump.STANDARD, names[ump.STANDARD])
            if ump.STANDARD in names
            else None
        )
        history = snapshot.iterate_history(version.memory_id, newest_first=True)
        successor = named_successor or next(
            (
                candidate
                for candidate in history
                if candidate.document.name == version.state.superseded_by
            ),
            None,
        )
    return None if successor is None else to_stored_grain(context, successor).address


def to_json_value(value: Any) -> object:
    """Return a field value as JSON, with bytes as base64 text."""
    kind = type(value)
    if kind in _JSON_SCALARS:
        return value
    if kind is dict:
        return {
            key: item if type(item) in _JSON_SCALARS else to_json_value(item)
            for key, item in value.items()
        }
    if kind is list:
        return [item if type(item) in _JSON_SCALARS else to_json_value(item) for item in value]
    return base64_encode(value) if isinstance(value, bytes) else value


def matching_fields(
    fields: Mapping[str, object],
    terms: frozenset[str],
    but: Sequence[str],
    known_words: dict[str, frozenset[str]] | None = None,
) -> list[str]:
    """Return the names of the fields that hold a searched word.

    `known_words` has the search words of fields that were analysed before; the others are added.
    """
    words = {} if known_words is None else known_words
    for name, value in fields.items():
        if name not in but and name not in words:
            words[name] = frozenset(keywords(collect_text(value)))
    return [name for name in fields if name not in but and not terms.isdisjoint(words[name])]


def collect_text(value: object) -> str:
    """Return all texts inside a value, joined by spaces."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return " ".join(collect_text(item) for item in value.values())
    return " ".join(collect_text(item) for item in value) if isinstance(value, list) else ""


_JSON_SCALARS: Final = frozenset((str, int, float, bool, type(None)))
