"""Compliance presets: rules of a store for what may be written, read and exported (OMS §17.3, appendix D).

    gdpr    personal data (a user_id, or tags of personal data) needs a processing_basis; others read it only with the
            person's consent; without a basis it is not exported
    ccpa    memories of a person who opted out of sale (con:ccpa_opted_out) are not exported
    hipaa   health information (phi: tags) needs a processing_basis, encryption at rest and no open licence; it is
            exported only if de-identified; a CAL query that names no fields gets it redacted, ten results at most

Presets are chosen by a setting, or by an owner (limits.py); several add up. Every document is read as the fields of a
grain (`fields_of`): a UMP record states them with scope.user, relations `about` to `tag:pii:…` or `tag:phi:…`, and
`processing_basis` and `con:ccpa_opted_out` in body.structured; an OAMS memory with its tags, `metadata.pii` and
`metadata.processing_basis`. A decision is the same for every caller, and each refusal names its rule.

Two rules hold without any preset: the domain profiles of OMS (appendix A) restrict what is exported, and a memory that
rests on a withdrawn consent is erased (§23.2; cascade.py).

Consent grains are permissions to read (OMS §8.10): a grant admits its grantee, a withdrawal excludes it at once. Each
has a subject (who consents), a relation (`mg:permits` or `mg:revokes`) and an object (the grantee). A consent counts
while it is current, intact, in its period, and not named by any withdrawal. It matters in two places: an owner may let
another owner see its shared memories (`readable_visibilities`), and under a preset that protects persons, memories
about a person are shown only with that person's consent (`may_read_personal`, `readable_users`).

Where each rule is applied: writing (`check_write`, called before a document is prepared), reading (`may_read_personal`,
and `readable_users` as a filter of searches), export (`find_export_refusal`). A preset is text in settings and stored
rules; adding one means adding it to `limits.PRESETS` and its functions here.

The names of fields follow OMS, because grains are the only standard that defines them; ports translate
(`Port.rule_fields`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from memoranda.errors import ConsentViolation, StoreCorrupt
from memoranda.model.bounds import is_binding
from memoranda.model.instant import Instant
from memoranda.model.memory import NATIVE_KEY, Document, Version, Visibility
from memoranda.model.oms_names import ADDRESS_PREFIX
from memoranda.model.selection import PageCursor, Selection
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.views import is_intact, project
from memoranda.standards.oms import policy, profile
from memoranda.standards.port import port_of
from memoranda.storage.engine.contract import Snapshot

if TYPE_CHECKING:
    from memoranda.standards.oms.grains import Grain

Fields = Mapping[str, Any]

# Bytes that occur in every document that declares a domain profile: plain, escaped in JSON, or in a carried document.
_DECLARING = (b"profile:", b"legal:", b"\\u", NATIVE_KEY.encode())

_REDACTED = "[redacted]"
# Fields that say nothing about a person: kinds, times and tags.
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
    """Return the rule that forbids exporting a version, of its domain profile (OMS appendix A) or of a preset; None if
    none does.

    The sentence is shown to the person who exports. A legal hold does not forbid export.
    """
    if version.state.erased or not (
        presets or is_binding(version.bounds) or may_declare_domain(version.document.native)
    ):
        return None
    fields = fields_of_version(version)
    return profile.find_export_problem(
        fields, is_held=version.state.has_legal_hold
    ) or _find_preset_refusal(presets, fields)


def may_declare_domain(native: bytes) -> bool:
    """Return True if the bytes of a document may declare a domain profile. Most do not, and need not be parsed."""
    for mark in _DECLARING:  # noqa: SIM110 -- asked of everything that leaves, and sooner told than by `any`
        if mark in native:
            return True
    return False


def fields_of_version(version: Version) -> Fields:
    """Return the fields that the rules look at, with those that the version inherits from earlier ones."""
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
    """Return the fields that the rules look at, under the names of grains, whichever standard wrote the document."""
    return port_of(document.standard).rule_fields(document, tenant)


def rests_on_consent(
    presets: Collection[str], fields: Fields, consent: str, *, now: Instant
) -> bool:
    """Return True if a memory must be erased when a consent is withdrawn.

    A grain states it by the mode `consent_cascade` (OMS §23.2). Where a preset demands a basis, every mode goes, and so
    do memories of standards without modes. Consents themselves stay on record (§8.10).

    `consent` is the address of the withdrawn consent. Depends on the time, because a policy may begin or end.
    """
    basis, is_grain = (
        str(fields.get("processing_basis")).removeprefix(ADDRESS_PREFIX),
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
    """Return the preset that forbids exporting a memory, with its reason; None if none does."""
    if "gdpr" in presets and is_personal(fields) and not fields.get("processing_basis"):
        return "gdpr: personal data without a processing_basis is not exported"
    if "ccpa" in presets and fields.get("con:ccpa_opted_out") is True:
        return "ccpa: memories of a person who opted out of sale are not exported"
    if "hipaa" in presets and is_health(fields) and not fields.get("hc:deidentification"):
        return "hipaa: health information is exported only if de-identified"
    return None


def needs_consent_to_read(presets: Collection[str]) -> bool:
    """Return True if others need a person's consent to read memories about that person."""
    return "gdpr" in presets or "hipaa" in presets


def is_personal(fields: Fields) -> bool:
    """Return True if fields are personal data."""
    return bool(fields.get("user_id")) or _has_tag(fields, "pii:") or is_health(fields)


def is_health(fields: Fields) -> bool:
    """Return True if fields are health information."""
    return _has_tag(fields, "phi:")


def apply_minimum_necessary(fields: Fields) -> Fields:
    """Return fields with the texts of health information redacted, for a query that names no fields (HIPAA,
    164.502(b)).
    """
    if not is_health(fields):
        return fields
    texts = {name: _REDACTED for name, value in fields.items() if isinstance(value, str)}
    return {**texts, **{name: fields[name] for name in _ALWAYS_SHOWN if name in fields}}


def _find_gdpr_violation(fields: Fields, _is_encrypted: bool) -> str | None:
    # A consent grain is the basis of other grains and needs none.
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
        return "health information must be encrypted (164.312); set MEMORANDA_ENCRYPTION to all"
    if str(fields.get("license", "")).startswith(_OPEN_LICENCES):
        return "health information cannot have an open licence"
    return None


def _has_tag(fields: Fields, prefix: str) -> bool:
    """Return True if a structural tag starts with a prefix."""
    return any(
        isinstance(tag, str) and tag.startswith(prefix) for tag in fields.get("structural_tags", ())
    )


PAGE_LIMIT = 500
READING = "retrieve"


def find_consent(
    context: Context, access: Access, *, subject: str, grantee: str, scope: str = READING
) -> str | None:
    """Return the address of the consent under which `grantee` may act on the memories of `subject` now; None without
    one.

    `scope` is the action, `retrieve` for reading. The newest valid consent counts.
    """
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        return find_authorizing_consent(context, snapshot, subject, grantee, scope)


def find_authorizing_consent(
    context: Context, snapshot: Snapshot, subject: str, grantee: str, scope: str
) -> str | None:
    """Return the address of the consent that permits `scope` to a grantee now, read in a snapshot; None without one."""
    now = context.clock()
    revoked = _find_withdrawn_consents(snapshot, subject, grantee, now)
    if revoked is None:
        return None
    granted = Selection(
        status_filter="current", subject=subject, relation="mg:permits", object=grantee
    )
    for version in reversed(list(_iterate_consents(snapshot, granted, now))):
        if (
            version.document.name in revoked
            or version.state.tombstoned is not None
            or not is_intact(version)
        ):
            continue
        fields = _load_consent_grain(version.document).fields
        begins, ends = fields.get("valid_from", 0), fields.get("valid_to", now)
        if scope in fields.get("scope", ()) and begins <= now <= ends:
            return version.document.name
    return None


def _load_consent_grain(document: Document) -> Grain:
    """Return a consent as a grain."""
    grain = port_of(document.standard).grain(document)
    assert grain is not None, "only a grain can be a consent"
    return grain


def _find_withdrawn_consents(
    snapshot: Snapshot, subject: str, grantee: str, now: Instant
) -> set[str] | None:
    """Return the names of the withdrawn consents between two parties; None if a withdrawal is damaged, as nothing
    counts then.
    """
    # A consent stays withdrawn even if the withdrawal itself was superseded or forgotten.
    withdrawals = Selection(
        status_filter="recorded", subject=subject, relation="mg:revokes", object=grantee
    )
    try:
        return {
            str(_load_consent_grain(version.document).fields.get("prior_consent", ""))
            for version in _iterate_consents(snapshot, withdrawals, now)
        }
    except StoreCorrupt:
        return None


def _iterate_consents(snapshot: Snapshot, selection: Selection, now: Instant) -> Iterator[Version]:
    """Yield the consent grains that a selection finds, oldest first."""
    after: PageCursor | None = None
    while page := snapshot.load_page(selection, limit=PAGE_LIMIT, now=now, after=after):
        after = page[-1].cursor
        versions = snapshot.load_versions([hit.version_id for hit in page])
        # Only a grain can be a consent (OMS §8.10).
        yield from (
            version for version in versions if port_of(version.document.standard).has_own_fields
        )


def readable_users(context: Context, access: Access, snapshot: Snapshot) -> tuple[str, ...] | None:
    """Return the users whose personal memories the caller may read by their consent; None if no preset restricts it."""
    if not needs_consent_to_read(context.presets_in(snapshot)) or access.sees_unredacted(
        snapshot.tenant
    ):
        return None
    grantee, now = _grantee_of(access), context.clock()
    granted = Selection(status_filter="current", relation="mg:permits", object=grantee)
    grants = [
        version for version in _iterate_consents(snapshot, granted, now) if is_intact(version)
    ]
    from memoranda.standards.oms import mapping as oms

    users = dict.fromkeys(
        oms.triple_of(_load_consent_grain(version.document))[0] for version in grants
    )
    return tuple(
        user
        for user in users
        if find_authorizing_consent(context, snapshot, user, grantee, READING) is not None
    )


def _grantee_of(access: Access) -> str:
    """Return the name under which consents are given to a caller."""
    return access.actor if access.is_peer else access.default_tenant


def may_read_personal(
    context: Context, access: Access, snapshot: Snapshot, version: Version
) -> bool:
    """Return True unless a preset forbids the caller to read a memory about a person who did not consent."""
    if not needs_consent_to_read(context.presets_in(snapshot)) or access.sees_unredacted(
        version.tenant
    ):
        return True
    if version.state.erased:
        return True
    user = project(context, version).scope.user
    return (
        not user
        or find_authorizing_consent(context, snapshot, user, _grantee_of(access), READING)
        is not None
    )


def readable_visibilities(
    context: Context, access: Access, snapshot: Snapshot
) -> tuple[Visibility, ...]:
    """Return the visibilities that the caller may see, by its credential or because the owner consented."""
    tenant = snapshot.tenant
    # A consent given to the signer of a token is not one for its bearer.
    if access.reaches(tenant) or access.limits or access.is_peer:
        return access.visibilities(tenant)
    if find_authorizing_consent(context, snapshot, tenant, access.default_tenant, READING) is None:
        return access.visibilities(tenant)
    return ("shared", "public")
