"""Memories of any standard as grains: whether a caller sees one whole, and by which address it is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from memoranda.encoding.bases import base64_encode
from memoranda.errors import InvalidInput
from memoranda.model.memory import Document, Version
from memoranda.retrieval.analysis import words
from memoranda.service.core.access import Access
from memoranda.service.core.consent import may_read_personal
from memoranda.service.core.context import Context
from memoranda.service.core.indexing import as_grain
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

# A grain as a caller gives it: its fields, or the bytes in which it travels (bare, or in its envelope).
Given = Mapping[str, Any] | bytes


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A given grain that can be read and whose signature, if it has one, holds."""

    grain: Grain
    delivery: bytes
    signer: str | None


def open_given(context: Context, given: Given, *, is_new: bool = True) -> Opened:
    if isinstance(given, bytes):
        opened = signature.open_delivery(given, context.did_documents)
        said = opened.grain if isinstance(opened, SignedGrain) else opened
        if is_new:
            refuse_secrets(context, said.fields)
        if isinstance(opened, SignedGrain):
            return Opened(grain=opened.grain, delivery=opened.envelope, signer=opened.signer)
        return Opened(grain=opened, delivery=opened.blob, signer=None)
    if not isinstance(given, Mapping):
        raise InvalidInput("a grain must be an object of its fields, or its bytes")
    grain = codec.encode(screen_fields(context, given))
    return Opened(grain=grain, delivery=grain.blob, signer=None)


class StoredGrain(msgspec.Struct, frozen=True, kw_only=True):
    """A grain as it lies in the store: the bytes it travels in, its fields, and what the index knows."""

    address: str
    delivery: bytes
    grain: Grain
    index: IndexState
    is_held: bool = False
    needs_review: bool = False
    # False when the memory was written through another standard and this is its view.
    is_native: bool = True
    # Who wrote it, where it names another as its author and is not signed.
    writer: str = ""

    def document(self) -> dict[str, Any]:
        """As JSON: full field names, and the index beside them."""
        known = {
            "superseded_by": self.index.superseded_by,
            "system_valid_to": self.index.system_valid_to,
            "verification_status": self.index.verification_status,
        }
        return {
            "address": self.address,
            "grain": jsonable(self.grain.fields),
            "index": {name: value for name, value in known.items() if value is not None},
            "held": self.is_held,
            "needs_review": self.needs_review,
            "native": self.is_native,
            **({"written_by": self.writer} if self.writer else {}),
        }


def is_listed(
    context: Context,
    access: Access,
    snapshot: Snapshot,
    version: Version,
    type_byte: int | None = None,
) -> bool:
    """Whether a list may name the version: the caller may see it, and see it whole."""
    if version.state.erased or not is_intact(version):
        return False
    if type_byte is not None and as_grain(context, version)[0].type_byte != type_byte:
        return False
    if sees_everything(access, version.tenant):
        return True
    record = outline_record(context, version)
    scope = scope_of(record)
    if scope["visibility"] not in access.visibilities(version.tenant) or not access.allows_scope(
        scope
    ):
        return False
    if would_be_cut(access, record):
        return False
    return may_read_personal(context, access, snapshot, version)


def would_be_cut(access: Access, record: Record) -> bool:
    """Whether the caller may see only a part of it: a grain is whole or it is not that grain (UMP §2.7)."""
    return not access.sees_unredacted(record["scope"]["owner"]) and rules.redact(record)[1]


def shown(context: Context, version: Version) -> StoredGrain:
    """A version as a grain: itself, the grain it was made from, or its view."""
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
    state = version.state
    if not state.superseded_by and state.closed is None and state.verification == UNVERIFIED:
        return DEFAULT
    return IndexState(
        superseded_by=_successor_address(context, version),
        system_valid_to=state.closed,
        verification_status=state.verification,
        successor_name=state.successor_names.get(ump.STANDARD),
    )


def delivered(context: Context, versions: Sequence[Version]) -> list[tuple[bytes, IndexState]]:
    """Versions as the bytes they travel in and what the index knows."""
    return [(_delivery(context, version), _index_state(context, version)) for version in versions]


def _delivery(context: Context, version: Version) -> bytes:
    if oms.owns(version.document):
        # It was checked when it came in, and that it still is what it was when it was read.
        return CheckedGrain.of(version.document.native, version.document.name)
    if address_inside(context, version.document, version.tenant) is not None:
        # An OAMS memory that holds another document: its key, its times and its source go along.
        outside = port_of(version.document.standard).exported(version.document)
        return oms.from_projection(project(context, version), outside).blob
    return as_grain(context, version)[1]


def address_inside(context: Context, document: Document, tenant: str) -> str | None:
    """Under which address a memory that holds another document is known, which is not that of its grain in a file."""
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
    names = version.state.successor_names
    if not version.state.superseded_by or oms.STANDARD in names:
        return names.get(oms.STANDARD)
    with context.engine.read(version.tenant) as snapshot:
        # Not every standard renames what is revised, so the name that UMP gives the successor comes first.
        named = (
            snapshot.find_by_name(ump.STANDARD, names[ump.STANDARD])
            if ump.STANDARD in names
            else None
        )
        later = snapshot.iterate_history(version.memory_id, newest_first=True)
        following = named or next(
            (each for each in later if each.document.name == version.state.superseded_by), None
        )
    return None if following is None else shown(context, following).address


def jsonable(value: Any) -> Any:
    """Fields as JSON: bytes as base64 text."""
    kind = type(value)
    if kind in _JSON_SCALARS:
        return value
    if kind is dict:
        return {
            key: item if type(item) in _JSON_SCALARS else jsonable(item)
            for key, item in value.items()
        }
    if kind is list:
        return [item if type(item) in _JSON_SCALARS else jsonable(item) for item in value]
    return base64_encode(value) if isinstance(value, bytes) else value


def telling(fields: Mapping[str, Any], sought: frozenset[str], but: Sequence[str]) -> list[str]:
    """The fields in which a word that was looked for stands."""
    return [
        name
        for name, value in fields.items()
        if name not in but and (text := said(value)) and not sought.isdisjoint(words(text))
    ]


def said(value: Any) -> str:
    """All texts of a value."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return " ".join(said(each) for each in value.values())
    return " ".join(said(each) for each in value) if isinstance(value, list) else ""


_JSON_SCALARS: Final = frozenset((str, int, float, bool, type(None)))
