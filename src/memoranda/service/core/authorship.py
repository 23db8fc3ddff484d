"""Who wrote it: the verified caller (UMP §2.6). What a caller says beyond that is kept as a claim, and marked as one.

Whoever is at the machine is taken at his word, but not the files that he takes in. Everybody else is the author of what
he writes, whatever he says, the owner's own keys included: the operator signs it, and would sign it as somebody's word
otherwise. What names another author without a signature and cannot be changed, a grain or a memory from a file, is kept
as it is, and who wrote it beside it (`Bounds.writer`). To someone else to whom the owner granted something (a peer) it
is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from memoranda.errors import ForbiddenScope
from memoranda.model.memory import Bounds, Version
from memoranda.model.native import CLAIMED_KEY
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.indexing import NewVersion, with_bounds
from memoranda.standards.ump.record import Actor, Draft, Record
from memoranda.standards.ump.shapes import ActorKind, Body, Provenance

DraftOrRecord = TypeVar("DraftOrRecord", Draft, Record)


def _is_own_statement(access: Access, author: object, *, is_from_file: bool) -> bool:
    """Whether what names this author, or none, is the caller's own word, or that of the person at the machine."""
    return author in (None, "", access.actor) or (access.credential == "local" and not is_from_file)


def attribute_draft(access: Access, draft: Draft, *, is_from_file: bool) -> Draft:
    """A draft with its author: whoever the credential says."""
    claimed: Provenance | None = draft.get("provenance")
    if claimed is None or _is_own_statement(access, claimed["actor"], is_from_file=is_from_file):
        return draft
    mine, kind = draft.copy(), "import" if is_from_file else access.actor_kind
    mine["provenance"] = {**claimed, "actor": access.actor, "actor_kind": cast("ActorKind", kind)}
    if is_from_file:
        # UMP §2.6: an import carries its provider.
        mine["provenance"]["source"] = {"provider": "file", **claimed.get("source", {})}
    return with_claim(mine, (claimed["actor"], claimed["actor_kind"]))


def with_writer(
    context: Context,
    access: Access,
    new: NewVersion,
    *,
    signer: str | None = None,
    is_from_file: bool = False,
) -> NewVersion:
    """A document that is written as it came, with who wrote it, where it names another author who did not sign it."""
    author = new.projection.actor
    if author == signer or _is_own_statement(access, author, is_from_file=is_from_file):
        return new
    return with_bounds(context, new, Bounds(writer=access.actor))


def metadata_with_writer(version: Version, metadata: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The metadata of a memory as it is shown: with who wrote it under a key, and whom it names as a claim."""
    writer = "" if version.bounds is None else version.bounds.writer
    return (
        {**metadata, key: writer, CLAIMED_KEY: metadata.get(key)}
        if writer and key in metadata
        else dict(metadata)
    )


def with_claim(record: DraftOrRecord, claimed: Actor | None) -> DraftOrRecord:
    """What is said, and whom its writer named as its author; an earlier claim was about earlier words."""
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
    """The metadata of a memory with its author under a key: a peer himself, and whoever else names somebody."""
    claimed = metadata.get(key)
    is_stated = claimed is not None and claimed != access.actor
    if access.credential == "local" or not (access.is_peer or is_stated):
        return metadata
    return {**metadata, key: access.actor, **({CLAIMED_KEY: claimed} if is_stated else {})}


def resolve_corrector(access: Access, claimed: Actor | None) -> tuple[Actor | None, Actor | None]:
    """Who revises a memory, and whom he names beyond that; nobody, if the person at the machine names nobody."""
    if access.credential == "local":
        return claimed, None
    verified = (access.actor, cast("ActorKind", access.actor_kind))
    return verified, None if claimed is None or claimed[0] == access.actor else claimed


def refuse_forged_author(access: Access, author: object, signer: str | None) -> None:
    """For what cannot be changed any more: raise ForbiddenScope if a peer says that another wrote it, or nobody."""
    if access.is_peer and author != access.actor and (signer is None or author != signer):
        raise ForbiddenScope(
            f"the author must be {access.actor}, who writes this, or whoever signed it"
        )


def attribute_grain(access: Access, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a grain with their author: of a peer that names nobody, himself."""
    return {"author_did": access.actor, **fields} if access.is_peer else fields


def refuse_peer_without_author(access: Access) -> None:
    """For what has no word for its author, such as an entry of openwop: it would be shown as the owner's."""
    if access.is_peer:
        raise ForbiddenScope(
            "an entry does not say who wrote it; only its owner's own credentials write one"
        )
