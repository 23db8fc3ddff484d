"""Who wrote it: the verified caller (UMP §2.6). What a caller says beyond that is kept as a claim, and marked as one.

Whoever is at the machine is taken at his word. Everybody else is the author of what he writes, whatever he says, the
owner's own keys included: the operator signs it, and would sign it as somebody's word otherwise. What cannot be
changed, because it came finished or signed, is refused to someone else to whom the owner granted something (a peer).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

from memoranda.errors import ForbiddenScope
from memoranda.service.core.access import Access
from memoranda.standards.ump.record import Actor, Draft, Record
from memoranda.standards.ump.shapes import ActorKind, Body, Provenance

# In a body, or the metadata of a memory: whom the caller named as the author, though that was not verified.
CLAIMED_KEY: Final = "memoranda:claimed"
Said = TypeVar("Said", Draft, Record)


def attributed(access: Access, draft: Draft) -> Draft:
    """A draft with its author: whoever the credential says."""
    claimed: Provenance | None = draft.get("provenance")
    if access.credential == "local" or claimed is None or claimed["actor"] == access.actor:
        return draft
    mine = draft.copy()
    mine["provenance"] = {**claimed, "actor": access.actor, "actor_kind": cast("ActorKind", access.actor_kind)}
    return with_claim(mine, (claimed["actor"], claimed["actor_kind"]))


def with_claim(said: Said, claimed: Actor | None) -> Said:
    """What is said, and whom its writer named as its author; an earlier claim was about earlier words."""
    body = said["body"]
    structured = {name: value for name, value in (body.get("structured") or {}).items() if name != CLAIMED_KEY}
    if claimed is not None:
        structured[CLAIMED_KEY] = {"actor": claimed[0], "actor_kind": claimed[1]}
    elif CLAIMED_KEY not in (body.get("structured") or {}):
        return said
    fresh: Body = {"text": body["text"]}
    if structured:
        fresh["structured"] = structured
    return cast("Said", {**said, "body": fresh})


def attributed_metadata(access: Access, metadata: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The metadata of a memory with its author under a key: a peer himself, and whoever else names somebody."""
    claimed = metadata.get(key)
    is_stated = claimed is not None and claimed != access.actor
    if access.credential == "local" or not (access.is_peer or is_stated):
        return metadata
    return {**metadata, key: access.actor, **({CLAIMED_KEY: claimed} if is_stated else {})}


def corrector(access: Access, claimed: Actor | None) -> tuple[Actor | None, Actor | None]:
    """Who revises a memory, and whom he names beyond that; nobody, if the person at the machine names nobody."""
    if access.credential == "local":
        return claimed, None
    verified = (access.actor, cast("ActorKind", access.actor_kind))
    return verified, None if claimed is None or claimed[0] == access.actor else claimed


def refuse_forged(access: Access, author: object, signer: str | None) -> None:
    """For what cannot be changed any more: raise ForbiddenScope if a peer says that another wrote it, or nobody."""
    if access.is_peer and author != access.actor and (signer is None or author != signer):
        raise ForbiddenScope(f"the author must be {access.actor}, who writes this, or whoever signed it")


def authored(access: Access, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a grain with their author: of a peer that names nobody, himself."""
    return {"author_did": access.actor, **fields} if access.is_peer else fields


def refuse_unnamed(access: Access) -> None:
    """For what has no word for its author, such as an entry of openwop: it would be shown as the owner's."""
    if access.is_peer:
        raise ForbiddenScope("an entry does not say who wrote it; only its owner's own credentials write one")
