"""Compliance presets: rules of a store that decide what is written, read and let out (OMS §17.3, appendix D).

    gdpr    personal data (a user_id, or tags of personal data) needs a processing_basis; someone else reads it only
            under the person's consent; what has no basis does not leave
    ccpa    a person who opted out of sale (con:ccpa_opted_out) does not leave the store
    hipaa   health information (phi: tags) needs a processing_basis, encryption at rest and no open licence, and does
            not leave unless de-identified; a CAL query that does not name fields gets it redacted, ten at most

A preset is chosen by a setting; several add up. A UMP record says the same with scope.user, relations `about` to
`tag:pii:…` or `tag:phi:…`, and `processing_basis` and `con:ccpa_opted_out` in body.structured; an OAMS memory with its
tags, `metadata.pii` and `metadata.processing_basis`. Decisions are the same for every caller and are never silent: what
is refused says which rule refused it.

Two rules hold without any preset: the domain profiles of OMS (appendix A) say what must be so before a memory leaves,
and what rests on a consent goes with it (§23.2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from memoranda.errors import ConsentViolation
from memoranda.model.bounds import is_binding
from memoranda.model.instant import Instant
from memoranda.model.memory import Document, Version
from memoranda.model.native import NATIVE_KEY
from memoranda.standards.port import port_of

Fields = Mapping[str, Any]

# How a document that names a domain begins to do so: as it is, escaped in JSON, or in the document inside.
_DECLARING = (b"profile:", b"legal:", b"\\u", NATIVE_KEY.encode())

_REDACTED = "[redacted]"
# Kinds, times and marks: what says nothing about a person by itself.
_ALWAYS_SHOWN = (
    "type",
    "relation",
    "created_at",
    "timestamp_ms",
    "namespace",
    "structural_tags",
    "confidence",
)
_OPEN_LICENCES = ("CC0", "CC-BY", "MIT", "Apache", "BSD", "ODbL", "PDDL", "Unlicense")


def find_export_refusal(presets: Collection[str], version: Version) -> str | None:
    """Which rule keeps a version from leaving: of the domain profile it declares (OMS appendix A), or of a preset."""
    if version.state.erased or not (
        presets or is_binding(version.bounds) or may_declare_domain(version.document.native)
    ):
        return None
    from memoranda.standards.oms import profile

    fields = fields_of_version(version)
    return profile.find_export_problem(
        fields, is_held=version.state.has_legal_hold
    ) or _find_preset_refusal(presets, fields)


def may_declare_domain(native: bytes) -> bool:
    """Whether a document can name a domain at all: most do not, and need not be read to know it."""
    for mark in _DECLARING:  # noqa: SIM110 -- asked of everything that leaves, and sooner told than by `any`
        if mark in native:
            return True
    return False


def fields_of_version(version: Version) -> Fields:
    """The same of a version: what those before it said counts, too."""
    fields, bounds = fields_of(version.document, version.tenant), version.bounds
    if bounds is None:
        return fields
    inherited = {
        name: value for name, value in bounds.policy_fields.items() if not fields.get(name)
    }
    tags = [*fields.get("structural_tags", ()), *bounds.tags]
    return {
        **fields,
        **inherited,
        "user_id": fields.get("user_id") or bounds.user,
        "structural_tags": tags,
    }


def fields_of(document: Document, tenant: str) -> Fields:
    """Return what the rules look at, under the names that grains give it, whichever standard wrote the document."""
    return port_of(document.standard).rule_fields(document, tenant)


def rests_on_consent(
    presets: Collection[str], fields: Fields, consent: str, *, now: Instant
) -> bool:
    """Whether the withdrawal of that consent makes a memory due for erasure.

    A grain says so with the mode `consent_cascade` (OMS §23.2). Where a preset asks for a basis, what has lost it goes
    in any mode, and so does a memory of a standard that has no modes. A consent stays as a record (§8.10).
    """
    from memoranda.standards.oms import mapping as oms
    from memoranda.standards.oms import policy

    basis, is_grain = (
        str(fields.get("processing_basis")).removeprefix(oms.ADDRESS_PREFIX),
        "type" in fields,
    )
    if basis != consent or fields.get("type") == "consent":
        return False
    cascades = policy.effective_mode(fields, now_ms=now)[0] == "consent_cascade"
    return cascades or not is_grain or needs_consent_to_read(presets)


def check_write(presets: Collection[str], fields: Fields, *, is_encrypted: bool) -> None:
    """Raise ConsentViolation if a preset does not let this grain in."""
    for preset, rule in (("gdpr", _find_gdpr_violation), ("hipaa", _find_hipaa_violation)):
        if preset in presets and (why := rule(fields, is_encrypted)):
            raise ConsentViolation(f"{preset}: {why}")


def _find_preset_refusal(presets: Collection[str], fields: Fields) -> str | None:
    """Which preset keeps a memory from leaving, and why."""
    if "gdpr" in presets and is_personal(fields) and not fields.get("processing_basis"):
        return "gdpr: personal data without a processing_basis does not leave"
    if "ccpa" in presets and fields.get("con:ccpa_opted_out") is True:
        return "ccpa: who opted out of sale does not leave"
    if "hipaa" in presets and is_health(fields) and not fields.get("hc:deidentification"):
        return "hipaa: health information leaves de-identified only"
    return None


def needs_consent_to_read(presets: Collection[str]) -> bool:
    """Whether someone other than the owner needs the person's consent to read what is about a person."""
    return "gdpr" in presets or "hipaa" in presets


def is_personal(fields: Fields) -> bool:
    return bool(fields.get("user_id")) or _has_tag(fields, "pii:") or is_health(fields)


def is_health(fields: Fields) -> bool:
    return _has_tag(fields, "phi:")


def apply_minimum_necessary(fields: Fields) -> Fields:
    """Health information without what it says, for whoever did not name the fields that are needed (164.502(b))."""
    if not is_health(fields):
        return fields
    texts = {name: _REDACTED for name, value in fields.items() if isinstance(value, str)}
    return {**texts, **{name: fields[name] for name in _ALWAYS_SHOWN if name in fields}}


def _find_gdpr_violation(fields: Fields, _is_encrypted: bool) -> str | None:
    # A consent grain is itself the basis of others.
    if (
        is_personal(fields)
        and fields.get("type") != "consent"
        and not fields.get("processing_basis")
    ):
        return "personal data needs a processing_basis (Art. 6)"
    return None


def _find_hipaa_violation(fields: Fields, is_encrypted: bool) -> str | None:
    if not is_health(fields):
        return None
    if not fields.get("processing_basis"):
        return "health information needs a processing_basis (164.508)"
    if not is_encrypted:
        return "health information is kept encrypted (164.312); set MEMORANDA_ENCRYPTION to all"
    if str(fields.get("license", "")).startswith(_OPEN_LICENCES):
        return "health information cannot have an open licence"
    return None


def _has_tag(fields: Fields, prefix: str) -> bool:
    return any(
        isinstance(tag, str) and tag.startswith(prefix) for tag in fields.get("structural_tags", ())
    )
