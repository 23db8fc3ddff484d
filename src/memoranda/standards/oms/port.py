"""The port of OMS: documents are grains, in the bytes in which they travel; CAL queries their fields.

A document is a bare blob or a signed envelope around one, and is named by the address of the grain. Decoding is cached
by name and bytes, since several steps of one request need the same grain. A grain may carry the document of another
standard; `original` returns that document if the grain is nothing but its view.

Addresses protect grains: a grain with one changed byte has another address, so `grain_of` detects damage when a grain
is read. With `is_sealed` the storage has already verified the bytes, and hashing them again is skipped. Signatures of
`did:web` signers cannot be checked again offline; they count as checked on the way in.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, Final

from msgspec.structs import replace

from memoranda.encoding.short_cache import short_cache
from memoranda.errors import GrainError, MemorandaError, StoreCorrupt
from memoranda.model.bounds import apply_bounds, bounds_of_view
from memoranda.model.memory import OMS, Document, Projection
from memoranda.model.titles import title_in
from memoranda.standards.oms import mapping, signature
from memoranda.standards.oms.grains import Grain, decode, read_accepted_grain
from memoranda.standards.oms.signature import SignedGrain
from memoranda.standards.port import Fields, Original, Port, port_of


class OmsPort(Port):
    """The port of documents that are grains."""

    name: ClassVar[str] = OMS
    has_own_fields: ClassVar[bool] = True
    rules_travel: ClassVar[bool] = True
    names_superseded: ClassVar[bool] = True

    def project(
        self, document: Document, tenant: str, space: str, *, ump_version: str
    ) -> Projection:
        return project_grain(grain_of(document), document.native, tenant, ump_version=ump_version)

    def check(self, document: Document) -> None:
        media_type = (
            mapping.SIGNED_MEDIA_TYPE
            if signature.is_envelope(document.native)
            else mapping.MEDIA_TYPE
        )
        grain = decode(signature.blob_of(document.native), profile=mapping.VIEWS)
        if (grain.address, media_type) != (document.name, document.media_type):
            raise GrainError("not the grain that it is named after", oms_code="ERR_INTEGRITY")

    def verifies(self, document: Document) -> bool:
        return _is_grain(document.name, document.native)

    def project_inside(
        self, inner: Document, tenant: str, space: str, *, ump_version: str
    ) -> Projection | None:
        try:
            return mapping.project(_decoded(inner.name, inner.native), tenant)
        except MemorandaError:
            return None

    def grain(self, document: Document, *, is_sealed: bool = False) -> Grain:
        return grain_of(document, is_sealed=is_sealed)

    def delivery(self, document: Document, did_documents: Fields) -> tuple[Grain, bytes] | None:
        try:
            opened_delivery = signature.open_delivery(document.native, did_documents)
        except MemorandaError:
            return None
        return (
            (opened_delivery.grain, opened_delivery.envelope)
            if isinstance(opened_delivery, SignedGrain)
            else (opened_delivery, opened_delivery.blob)
        )

    def title(self, document: Document) -> str:
        return title_in(grain_of(document).fields)

    def carried(self, document: Document) -> Document | None:
        return mapping.unwrap(grain_of(document))

    def rule_fields(self, document: Document, tenant: str) -> Fields:
        return grain_of(document).fields

    def policy_fields(self, document: Document) -> Fields | None:
        return grain_of(document).fields

    def policy_fields_inside(self, inner: Document) -> Fields:
        try:
            return decode(signature.blob_of(inner.native), profile=mapping.VIEWS).fields
        except MemorandaError:
            return {}


def project_grain(grain: Grain, delivery: bytes, tenant: str, *, ump_version: str) -> Projection:
    """Return the standard-free reading of a grain; `delivery` is the bytes in which it travels.

    The view of another owner's document, brought here as the grain that it is, is read as that document.

    A grain that was made from a document of another owner's store is read as that document, moved to this tenant, so
    that both stores find and rank it in the same way.
    """
    projection, inner = mapping.project(grain, tenant), mapping.unwrap(grain)
    if inner is None or mapping.owns(inner):
        return projection
    try:
        port = port_of(inner.standard)
        if not port.is_valid_inside(inner, ump_version=ump_version):
            return projection
        moved = port.moved(inner, tenant)
        original = original_in(grain, delivery, inner, tenant, moved=moved, ump_version=ump_version)
    except (MemorandaError, LookupError, TypeError, ValueError, AttributeError):
        # Anybody may have put it there.
        return projection
    if original is None:
        return projection
    scope = replace(original.projection.scope, tenant=tenant, space=projection.scope.space)
    return replace(
        original.projection, scope=scope, actor=projection.actor, sameness="", may_protect=True
    )


def original_in(
    grain: Grain,
    delivery: bytes,
    inner: Document,
    tenant: str,
    *,
    moved: Document | None = None,
    ump_version: str,
) -> Original | None:
    """Return the document inside a grain, if the grain is its view and nothing else.

    `moved` is the same document as the owner's here: then the view may have been made by the store of another owner,
    and only whose memory it was may differ.

    The comparison is exact: the view is built again from the inner document, and must have the same bytes as the grain.
    """
    view = mapping.project(grain, tenant)
    document = inner if moved is None else moved
    own_projection = port_of(document.standard).project(
        document, tenant, view.scope.space, ump_version=ump_version
    )
    if moved is not None:
        own_projection = replace(
            own_projection,
            actor=view.actor,
            subject=view.subject if own_projection.subject == tenant else own_projection.subject,
        )
    for bounds in (None, bounds_of_view(view, own_projection)):
        projection = own_projection if bounds is None else apply_bounds(own_projection, bounds)
        # A grain that says anything else, or is signed, is more than a view.
        if mapping.from_projection(projection, inner).blob == delivery:
            return Original(inner, projection, bounds)
    return None


def grain_of(document: Document, *, is_sealed: bool = False) -> Grain:
    """Return a stored grain, its address checked unless its seal was. Raises StoreCorrupt."""
    try:
        if is_sealed:
            return read_accepted_grain(signature.blob_of(document.native), document.name)
        return _decoded(document.name, document.native)
    except MemorandaError as error:
        raise StoreCorrupt(
            "a stored grain does not match its address; run 'memoranda verify'"
        ) from error


# One request looks at a grain several times. The key is the bytes themselves, so a grain that changed on disk is read
# again; a grain may have a mebibyte, so few are kept.
@lru_cache(maxsize=16)
def _decoded(address: str, native: bytes) -> Grain:
    return decode(signature.blob_of(native), address=address, profile=mapping.VIEWS)


@short_cache(4_096, length=4_096)
def _is_grain(address: str, native: bytes) -> bool:
    try:
        _decoded(address, native)
        # The signature of a did:web signer was checked on the way in, with documents that may be gone.
        if signature.is_envelope(native) and signature.signer_of(native).startswith("did:key:"):
            return signature.verify(native)
    except MemorandaError:
        return False
    return True


PORT: Final = OmsPort()
