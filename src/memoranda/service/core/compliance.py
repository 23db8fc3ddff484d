"""Compliance presets: rules of a store that decide what is written, read and let out (OMS §17.3, appendix D).

    gdpr    personal data (a user_id, or tags of personal data) needs a processing_basis; someone else reads it only
            under the person's consent; what has no basis does not leave
    ccpa    a person who opted out of sale (con:ccpa_opted_out) does not leave the store
    hipaa   health information (phi: tags) needs a processing_basis, encryption at rest and no open licence, and does
            not leave unless de-identified; a CAL query that does not name fields gets it redacted, ten at most

A preset is chosen by a setting; several add up. A UMP record says the same with scope.user, `consent.basis`, relations
`about` to `tag:pii:…` or `tag:phi:…`, and body.structured["con:ccpa_opted_out"]; an OAMS memory with its tags,
`metadata.pii` and `metadata.processing_basis`. Decisions are the same for every
caller and are never silent: what is refused says which rule refused it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from memoranda.errors import ConsentViolation, MemorandaError
from memoranda.model.memory import Document, Version
from memoranda.service.core.views import grain_of, load
from memoranda.standards.oams import mapping as oams
from memoranda.standards.oams.namespace import owner_hash, parse_namespace
from memoranda.standards.oms import mapping as oms
from memoranda.standards.ump import mapping as ump
from memoranda.standards.ump.record import Record

PRESETS = ("gdpr", "ccpa", "hipaa")

Fields = Mapping[str, Any]

_REDACTED = "[redacted]"
# Kinds, times and marks: what says nothing about a person by itself.
_ALWAYS_SHOWN = ("type", "relation", "created_at", "timestamp_ms", "namespace", "structural_tags", "confidence")
_OPEN_LICENCES = ("CC0", "CC-BY", "MIT", "Apache", "BSD", "ODbL", "PDDL", "Unlicense")


def may_leave(presets: Collection[str], version: Version) -> bool:
    """Whether a version may leave the store."""
    return not presets or version.state.erased or may_export(presets, fields_of(version.document, version.tenant))


def fields_of(document: Document, tenant: str) -> Fields:
    """What the rules look at, in the words of a grain, whichever standard it was written in."""
    if document.standard == oms.STANDARD:
        return grain_of(document).fields
    if document.standard == oams.STANDARD:
        memory = load(document.native)
        owner = parse_namespace(memory["namespace"]).owner
        return said_by_memory(memory, user="" if owner == owner_hash(tenant) else owner)
    return said_by_record(load(document.native)) if document.standard == ump.STANDARD else {}


def said_by_memory(memory: Mapping[str, Any], *, user: str = "") -> Fields:
    """An OAMS memory in these words: its tags, whether it says that it is personal, and the basis it names.

    `user` is the owner of a claimed namespace. What a document inside says counts, too.
    """
    metadata = memory.get("metadata")
    said = metadata if isinstance(metadata, Mapping) else {}
    inner = _said_inside(memory)
    tags = memory.get("tags")
    listed = [tag.lower() for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    declared = ["pii:declared"] if said.get("pii") is True else []
    kept = ("processing_basis", "con:ccpa_opted_out", "hc:deidentification")
    return {
        "user_id": inner.get("user_id") or user,
        "structural_tags": [*listed, *declared, *inner.get("structural_tags", ())],
        **{name: said.get(name) or inner.get(name) for name in kept},
    }


def _said_inside(memory: Mapping[str, Any]) -> Fields:
    inner = oams.unwrap(dict(memory))
    try:
        return {} if inner is None or inner.standard == oams.STANDARD else fields_of(inner, "")
    except (MemorandaError, LookupError, TypeError, AttributeError):
        # Anybody may have put it there; what is no document says nothing.
        return {}


def said_by_record(record: Record) -> Fields:
    """A UMP record in these words: its user, the basis its consent names, and tags it is about."""
    about = [link["target"] for link in record.get("relations", ()) if link["type"] == "about"]
    inner = (record["body"].get("structured") or {}).get("con:ccpa_opted_out")
    return {
        "user_id": record["scope"].get("user"),
        "processing_basis": record.get("consent", {}).get("basis"),
        "structural_tags": [target.removeprefix("tag:") for target in about if target.startswith("tag:")],
        "con:ccpa_opted_out": inner,
    }


def check_write(presets: Collection[str], fields: Fields, *, is_encrypted: bool) -> None:
    """Raise ConsentViolation if a preset does not let this grain in."""
    for preset, rule in (("gdpr", _gdpr), ("hipaa", _hipaa)):
        if preset in presets and (why := rule(fields, is_encrypted)):
            raise ConsentViolation(f"{preset}: {why}")


def may_export(presets: Collection[str], fields: Fields) -> bool:
    """Whether a grain may leave the store."""
    if "gdpr" in presets and is_personal(fields) and not fields.get("processing_basis"):
        return False
    if "ccpa" in presets and fields.get("con:ccpa_opted_out") is True:
        return False
    return not ("hipaa" in presets and is_health(fields) and not fields.get("hc:deidentification"))


def needs_consent_to_read(presets: Collection[str]) -> bool:
    """Whether someone other than the owner needs the person's consent to read what is about a person."""
    return "gdpr" in presets or "hipaa" in presets


def is_personal(fields: Fields) -> bool:
    return bool(fields.get("user_id")) or _tagged(fields, "pii:") or is_health(fields)


def is_health(fields: Fields) -> bool:
    return _tagged(fields, "phi:")


def minimum_necessary(fields: Fields) -> Fields:
    """Health information without what it says, for whoever did not name the fields that are needed (164.502(b))."""
    if not is_health(fields):
        return fields
    texts = {name: _REDACTED for name, value in fields.items() if isinstance(value, str)}
    return {**texts, **{name: fields[name] for name in _ALWAYS_SHOWN if name in fields}}


def _gdpr(fields: Fields, _is_encrypted: bool) -> str | None:
    # A consent grain is itself the basis of others.
    if is_personal(fields) and fields.get("type") != "consent" and not fields.get("processing_basis"):
        return "personal data needs a processing_basis (Art. 6)"
    return None


def _hipaa(fields: Fields, is_encrypted: bool) -> str | None:
    if not is_health(fields):
        return None
    if not fields.get("processing_basis"):
        return "health information needs a processing_basis (164.508)"
    if not is_encrypted:
        return "health information is kept encrypted (164.312); set MEMORANDA_ENCRYPTION to all"
    if str(fields.get("license", "")).startswith(_OPEN_LICENCES):
        return "health information cannot have an open licence"
    return None


def _tagged(fields: Fields, prefix: str) -> bool:
    return any(isinstance(tag, str) and tag.startswith(prefix) for tag in fields.get("structural_tags", ()))
