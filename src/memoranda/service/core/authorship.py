"""Authorship: the author of a memory is the verified caller (UMP §2.6). Other names are kept as claims, marked as such.

The person at the machine is trusted about authors, but the files that he imports are not. Everybody else is the author
of what he writes, whatever it states, even with one of the owner's own keys: otherwise the operator's signature would
confirm somebody else's words.

A document that cannot be changed (a grain, or a memory from a file) may name another author without that author's
signature. It is stored as it is, with the verified writer beside it (`Bounds.writer`). A peer, who uses somebody's
grant, may not write such a document.

The functions below do this for the forms in which the standards state an author: the provenance of a record, the
metadata of an OAMS memory, the `author_did` of a grain.

Three roles must be kept apart: the *author* that a document states, the *writer* (the verified caller), and the
*signer* (whose key signed it). Search, views and audit use the writer unless a signature proves the author. A claim
stays visible, marked as such, because it may be true and useful.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from memoranda.errors import ForbiddenScope
from memoranda.model.memory import CLAIMED_KEY, Bounds, Version
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.indexing import NewVersion, with_bounds
from memoranda.standards.ump.record import Actor, Draft, Record
from memoranda.standards.ump.shapes import ActorKind, Body, Provenance

DraftOrRecord = TypeVar("DraftOrRecord", Draft, Record)


def _is_own_statement(access: Access, author: object, *, is_from_file: bool) -> bool:
    """Return True if the caller may name this author: itself or nobody, or anybody for the person at the machine."""
    return author in (None, "", access.actor) or (access.credential == "local" and not is_from_file)


def attribute_draft(access: Access, draft: Draft, *, is_from_file: bool) -> Draft:
    """Return a draft whose author is the verified caller; another author it named becomes a claim."""
    stated_provenance: Provenance | None = draft.get("provenance")
    if stated_provenance is None or _is_own_statement(
        access, stated_provenance["actor"], is_from_file=is_from_file
    ):
        return draft
    attributed, kind = draft.copy(), "import" if is_from_file else access.actor_kind
    attributed["provenance"] = {
        **stated_provenance,
        "actor": access.actor,
        "actor_kind": cast("ActorKind", kind),
    }
    if is_from_file:
        # UMP §2.6: an import carries its provider.
        attributed["provenance"]["source"] = {
            "provider": "file",
            **stated_provenance.get("source", {}),
        }
    return with_claim(attributed, (stated_provenance["actor"], stated_provenance["actor_kind"]))


def with_writer(
    context: Context,
    access: Access,
    new_version: NewVersion,
    *,
    signer: str | None = None,
    is_from_file: bool = False,
) -> NewVersion:
    """Return a document with its writer beside it, if it names another author who did not sign it.

    Restrictions are the only place where something can be added beside an immutable document, therefore
    `Bounds.writer`.
    """
    author = new_version.projection.actor
    if author == signer or _is_own_statement(access, author, is_from_file=is_from_file):
        return new_version
    return with_bounds(context, new_version, Bounds(writer=access.actor))


def metadata_with_writer(version: Version, metadata: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the metadata of a memory as shown: the verified writer under `key`, and the author it names as a claim."""
    writer = "" if version.bounds is None else version.bounds.writer
    return (
        {**metadata, key: writer, CLAIMED_KEY: metadata.get(key)}
        if writer and key in metadata
        else dict(metadata)
    )


def with_claim(record: DraftOrRecord, claimed: Actor | None) -> DraftOrRecord:
    """Return a record whose body carries the claimed author; without a claim, an earlier one is removed, as its text is
    gone.
    """
    body = record["body"]
    structured = {
        name: value for name, value in (body.get("structured") or {}).items() if name != CLAIMED_KEY
    }
    if claimed is not None:
        structured[CLAIMED_KEY] = {"actor": claimed[0], "actor_kind": claimed[1]}
    elif CLAIMED_KEY not in (body.get("structured") or {}):
        return record
    fresh: Body = {"text": body["text"]}
    if structured:
        fresh["structured"] = structured
    return cast("DraftOrRecord", {**record, "body": fresh})


def attribute_metadata(access: Access, metadata: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return metadata with the verified author under `key`: always for a peer, else if another author is named."""
    claimed = metadata.get(key)
    is_stated = claimed is not None and claimed != access.actor
    if access.credential == "local" or not (access.is_peer or is_stated):
        return metadata
    return {**metadata, key: access.actor, **({CLAIMED_KEY: claimed} if is_stated else {})}


def resolve_corrector(access: Access, claimed: Actor | None) -> tuple[Actor | None, Actor | None]:
    """Return who revises a memory, and the author that the caller claims beyond that.

    Both are None if the person at the machine names nobody.
    """
    if access.credential == "local":
        return claimed, None
    verified = (access.actor, cast("ActorKind", access.actor_kind))
    return verified, None if claimed is None or claimed[0] == access.actor else claimed


def refuse_forged_author(access: Access, author: object, signer: str | None) -> None:
    """Raise ForbiddenScope if a peer brings a finished document by another author, or by none, that the author did not
    sign.
    """
    if access.is_peer and author != access.actor and (signer is None or author != signer):
        raise ForbiddenScope(f"the author must be {access.actor}, who writes this, or its signer")


def attribute_grain(access: Access, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a grain with a peer as its author, unless it names one."""
    return {"author_did": access.actor, **fields} if access.is_peer else fields


def refuse_peer_without_author(access: Access) -> None:
    """Raise ForbiddenScope for a peer writing a form that states no author, such as an openwop entry: it would look
    like the owner's.
    """
    if access.is_peer:
        raise ForbiddenScope(
            "an entry does not say who wrote it; only its owner's own credentials write one"
        )
