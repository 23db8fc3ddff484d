"""Profiles: how large a grain may be on which device (section 18), and what a domain adds to it (appendix A).

A grain declares a domain with the tag `profile:<name>`; only then are that domain's fields checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from memoranda.errors import GrainError, TooLarge

Fields = Mapping[str, Any]


class SizeProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What a class of devices takes."""

    name: str
    max_bytes: int
    max_depth: int
    # None: every field.
    only: frozenset[str] | None = None

    def check_size(self, blob: bytes) -> None:
        """Raise TooLarge if the blob is over the limit."""
        if len(blob) > self.max_bytes:
            raise TooLarge(f"a grain of {len(blob)} bytes is over the limit of {self.max_bytes} ({self.name} profile)")

    def check_fields(self, fields: Fields) -> None:
        """Raise GrainError if the profile leaves one of the fields out."""
        if self.only is not None and not self.only.issuperset(fields):
            extra = ", ".join(sorted(fields.keys() - self.only))
            raise GrainError(f"the {self.name} profile has no field for {extra}", oms_code="ERR_SCHEMA")


EXTENDED: Final = SizeProfile(name="extended", max_bytes=1_048_576, max_depth=32)
STANDARD: Final = SizeProfile(name="standard", max_bytes=32_768, max_depth=16)
# Section 18.3: required fields only.
LIGHTWEIGHT: Final = SizeProfile(
    name="lightweight",
    max_bytes=512,
    max_depth=8,
    only=frozenset("type subject relation object confidence created_at namespace".split()),
)
SIZE_PROFILES: Final = {profile.name: profile for profile in (EXTENDED, STANDARD, LIGHTWEIGHT)}

# --- domains -------------------------------------------------------------------------------------------------

_TAG_PREFIX: Final = "profile:"
_Test = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_anything(_: Any) -> bool:
    return True


def _within(low: float, high: float) -> _Test:
    return lambda value: _is_number(value) and low <= value <= high


def _among(values: str) -> _Test:
    allowed = frozenset(values.split())
    return lambda value: isinstance(value, str) and value in allowed


def _all(test: _Test, names: str) -> dict[str, _Test]:
    return dict.fromkeys(names.split(), test)


_HEALTHCARE: Final[Mapping[str, _Test]] = {
    **_all(_is_text, "patient_id encounter_id practitioner_did loinc snomed fhir_resource fhir_id consent_ref"),
    **_all(_is_texts, "icd10 cpt"),
    "deidentification": _among("safe_harbor expert_determination"),
}
_LEGAL: Final[Mapping[str, _Test]] = {
    **_all(_is_text, "jurisdiction matter_id citation hold_ref"),
    **_all(_is_anything, "effective_date expiry_date"),
    "parties": _is_texts,
    "document_type": _among("contract opinion filing statute regulation order brief"),
    "privilege": _among("attorney_client work_product none"),
    "redaction_level": _among("none partial full"),
}
_FINANCE: Final[Mapping[str, _Test]] = {
    **_all(_is_text, "account_id instrument_id ticker currency venue strategy_id sox_control_id"),
    **_all(_is_anything, "amount market_timestamp"),
    "transaction_type": _among("debit credit transfer fee trade settlement"),
    "risk_score": _is_number,
    "retention_years": _is_count,
}
_ROBOTICS: Final[Mapping[str, _Test]] = {
    **_all(_is_text, "robot_id map_id mission_id hardware_rev firmware_ver coordinate_frame"),
    **_all(_is_anything, "pose velocity contact_forces"),
    "battery_pct": _is_number,
    "safety_state": _among("normal warning emergency_stop recovery"),
}
_SCIENCE: Final[Mapping[str, _Test]] = {
    **_all(_is_text, "doi arxiv_id pmid dataset_id experiment_id protocol_id hypothesis"),
    **_all(_is_flag, "preregistered open_access"),
    "p_value": _within(0, 1),
    "effect_size": _is_number,
    "sample_size": _is_count,
    "result_status": _among("positive negative inconclusive replicated failed_replication"),
}
_CONSUMER: Final[Mapping[str, _Test]] = {
    **_all(_is_text, "app_id app_version locale preference_category ab_variant"),
    **_all(_is_count, "engagement_duration_ms recommendation_rank"),
    "device_type": _among("mobile desktop smart_speaker wearable tv kiosk"),
    "interaction_type": _among("explicit_feedback implicit_signal purchase skip save share"),
    "sentiment": _within(-1, 1),
    "ccpa_opted_out": _is_flag,
}
_INTEGRATION: Final[Mapping[str, _Test]] = {
    **_all(
        _is_text,
        """base_url http_method http_path response_mapping auth_type connector docs_url category content_type
        cursor_field webhook_path webhook_secret_header cron_expression timezone""",
    ),
    **_all(_is_texts, "path_params auth_scopes"),
    **_all(_is_anything, "query_params body_params sunset_date"),
    **_all(_is_map, "config_schema event_schema"),
    **_all(_is_count, "poll_interval_secs rate_limit"),
    "read_only": _is_flag,
    "cursor_type": _among("timestamp id etag"),
}

_OPEN_LICENSE = re.compile(
    r"(CC0|CC-BY|CC-PDDC|MIT|Apache-|BSD-|ODbL-|ODC-|PDDL-|Unlicense|WTFPL|GPL-|LGPL-|MPL-)", re.ASCII
)
_PRIVILEGED: Final = ("attorney_client", "work_product")
_PARAMETER = re.compile(r"\{([^{}]+)\}")


def domain_problems(fields: Fields) -> list[str]:
    """What is wrong with the fields of the domains that a grain declares, one sentence each."""
    found: list[str] = []
    for tag in fields.get("structural_tags", ()):
        if tag.startswith(_TAG_PREFIX) and (domain := _DOMAINS.get(tag[len(_TAG_PREFIX) :])) is not None:
            prefix, tests, more = domain
            found.extend(_wrong_fields(fields, prefix, tests))
            found.extend(more(fields))
    return found


def _wrong_fields(fields: Fields, prefix: str, tests: Mapping[str, _Test]) -> Iterator[str]:
    for where, place in ((fields, ""), (fields.get("context"), "context.")):
        if not isinstance(where, Mapping):
            continue
        for name, value in where.items():
            if name.startswith(prefix):
                test = tests.get(name[len(prefix) :])
                if test is not None and not test(value):
                    yield f"{place}{name} has a value that its profile does not allow"


def _healthcare(fields: Fields) -> Iterator[str]:
    if not any(tag.startswith("phi:") for tag in fields["structural_tags"]):
        return
    if "processing_basis" not in fields:
        yield "processing_basis is required on protected health information"
    if _OPEN_LICENSE.match(str(fields.get("license", ""))):
        yield "protected health information cannot have an open license"


def _integration(fields: Fields) -> Iterator[str]:
    context = fields.get("context")
    if not isinstance(context, Mapping):
        return
    path, parameters = context.get("int:http_path"), context.get("int:path_params", [])
    if isinstance(path, str) and _is_texts(parameters) and set(_PARAMETER.findall(path)) != set(parameters):
        yield "context.int:path_params must name the parameters of context.int:http_path"
    if context.get("int:response_mapping") == "":
        yield "context.int:response_mapping must be a jq expression"


def _nothing_more(_: Fields) -> Iterator[str]:
    return iter(())


_DOMAINS: Final[Mapping[str, tuple[str, Mapping[str, _Test], Callable[[Fields], Iterator[str]]]]] = {
    "healthcare": ("hc:", _HEALTHCARE, _healthcare),
    "legal": ("legal:", _LEGAL, _nothing_more),
    "finance": ("fin:", _FINANCE, _nothing_more),
    "robotics": ("rob:", _ROBOTICS, _nothing_more),
    "science": ("sci:", _SCIENCE, _nothing_more),
    "consumer": ("con:", _CONSUMER, _nothing_more),
    "integration": ("int:", _INTEGRATION, _integration),
}


def export_problem(fields: Fields, *, is_held: bool) -> str | None:
    """Which rule of its domain keeps a grain from leaving, if any does. `is_held`: by the index."""
    context = fields.get("context")
    said = {**context, **fields} if isinstance(context, Mapping) else fields
    policy = fields.get("invalidation_policy")
    held = is_held or (isinstance(policy, Mapping) and policy.get("mode") == "hold")
    if said.get("legal:privilege") in _PRIVILEGED and not held:
        return "legal profile: privileged material is put on hold before it leaves"
    tags = [tag for tag in fields.get("structural_tags", ()) if isinstance(tag, str)]
    if fields.get("processing_basis"):
        return None
    if "profile:finance" in tags and any(tag.startswith("pii:") for tag in tags):
        return "finance profile: personal data needs a processing_basis before it leaves"
    if "profile:consumer" in tags and fields.get("user_id"):
        return "consumer profile: what is about a user needs a processing_basis before it leaves"
    return None
