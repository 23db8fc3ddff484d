"""Size limits by class of device (section 18) and rules by domain (appendix A).

A grain declares a domain with the tag `profile:<name>`. Only then are that domain's fields checked.

Size profiles protect receivers with little memory, and domains protect people: a grain about health without the fields
that law requires must not be stored as one. The functions return sentences instead of raising, because some callers
refuse a grain and others only warn. `context` is searched as well as the top level, because writers put fields of a
domain in either.

To add a domain: map its fields to tests of their values, and add a function for what involves several fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from memoranda.errors import GrainError

Fields = Mapping[str, Any]


class SizeProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a class of devices: bytes of a grain, levels of nesting, and permitted fields."""

    name: str
    max_bytes: int
    max_depth: int
    # The permitted fields; None permits all.
    only: frozenset[str] | None = None

    def check_fields(self, fields: Fields) -> None:
        """Raise GrainError if the profile does not permit one of the fields."""
        if self.only is not None and not self.only.issuperset(fields):
            extra = ", ".join(sorted(fields.keys() - self.only))
            raise GrainError(
                f"the {self.name} profile does not permit the fields {extra}", oms_code="ERR_SCHEMA"
            )


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


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_map(value: object) -> bool:
    return isinstance(value, dict)


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_anything(_: object) -> bool:
    return True


def _within(low: float, high: float) -> _Test:
    """Return a test for a number in this range."""
    return lambda value: _is_number(value) and low <= value <= high


def _among(values: str) -> _Test:
    """Return a test for one of these words."""
    allowed = frozenset(values.split())
    return lambda value: isinstance(value, str) and value in allowed


def _map_fields(test: _Test, names: str) -> dict[str, _Test]:
    """Map each of the names to the same test."""
    return dict.fromkeys(names.split(), test)


_HEALTHCARE: Final[Mapping[str, _Test]] = {
    **_map_fields(
        _is_text,
        "patient_id encounter_id practitioner_did loinc snomed fhir_resource fhir_id consent_ref",
    ),
    **_map_fields(_is_text_list, "icd10 cpt"),
    "deidentification": _among("safe_harbor expert_determination"),
}
_LEGAL: Final[Mapping[str, _Test]] = {
    **_map_fields(_is_text, "jurisdiction matter_id citation hold_ref"),
    **_map_fields(_is_anything, "effective_date expiry_date"),
    "parties": _is_text_list,
    "document_type": _among("contract opinion filing statute regulation order brief"),
    "privilege": _among("attorney_client work_product none"),
    "redaction_level": _among("none partial full"),
}
_FINANCE: Final[Mapping[str, _Test]] = {
    **_map_fields(
        _is_text, "account_id instrument_id ticker currency venue strategy_id sox_control_id"
    ),
    **_map_fields(_is_anything, "amount market_timestamp"),
    "transaction_type": _among("debit credit transfer fee trade settlement"),
    "risk_score": _is_number,
    "retention_years": _is_count,
}
_ROBOTICS: Final[Mapping[str, _Test]] = {
    **_map_fields(
        _is_text, "robot_id map_id mission_id hardware_rev firmware_ver coordinate_frame"
    ),
    **_map_fields(_is_anything, "pose velocity contact_forces"),
    "battery_pct": _is_number,
    "safety_state": _among("normal warning emergency_stop recovery"),
}
_SCIENCE: Final[Mapping[str, _Test]] = {
    **_map_fields(_is_text, "doi arxiv_id pmid dataset_id experiment_id protocol_id hypothesis"),
    **_map_fields(_is_flag, "preregistered open_access"),
    "p_value": _within(0, 1),
    "effect_size": _is_number,
    "sample_size": _is_count,
    "result_status": _among("positive negative inconclusive replicated failed_replication"),
}
_CONSUMER: Final[Mapping[str, _Test]] = {
    **_map_fields(_is_text, "app_id app_version locale preference_category ab_variant"),
    **_map_fields(_is_count, "engagement_duration_ms recommendation_rank"),
    "device_type": _among("mobile desktop smart_speaker wearable tv kiosk"),
    "interaction_type": _among("explicit_feedback implicit_signal purchase skip save share"),
    "sentiment": _within(-1, 1),
    "ccpa_opted_out": _is_flag,
}
_INTEGRATION: Final[Mapping[str, _Test]] = {
    **_map_fields(
        _is_text,
        """base_url http_method http_path response_mapping auth_type connector docs_url category content_type
        cursor_field webhook_path webhook_secret_header cron_expression timezone""",
    ),
    **_map_fields(_is_text_list, "path_params auth_scopes"),
    **_map_fields(_is_anything, "query_params body_params sunset_date"),
    **_map_fields(_is_map, "config_schema event_schema"),
    **_map_fields(_is_count, "poll_interval_secs rate_limit"),
    "read_only": _is_flag,
    "cursor_type": _among("timestamp id etag"),
}

_OPEN_LICENSE = re.compile(
    r"(CC0|CC-BY|CC-PDDC|MIT|Apache-|BSD-|ODbL-|ODC-|PDDL-|Unlicense|WTFPL|GPL-|LGPL-|MPL-)",
    re.ASCII,
)
_PRIVILEGED: Final = ("attorney_client", "work_product")
_PARAMETER = re.compile(r"\{([^{}]+)\}")


def find_domain_problems(fields: Fields) -> list[str]:
    """Return the violations of the domains that a grain declares, one sentence each."""
    violations: list[str] = []
    for tag in fields.get("structural_tags", ()):
        domain = (
            _DOMAINS.get(tag.removeprefix(_TAG_PREFIX)) if tag.startswith(_TAG_PREFIX) else None
        )
        if domain is not None:
            prefix, tests, check_domain = domain
            violations.extend(_find_wrong_fields(fields, prefix, tests))
            violations.extend(check_domain(fields))
    return violations


def _find_wrong_fields(fields: Fields, prefix: str, tests: Mapping[str, _Test]) -> Iterator[str]:
    """Yield a sentence for each field of the domain, at the top or in `context`, that fails its test."""
    for container, location in ((fields, ""), (fields.get("context"), "context.")):
        if not isinstance(container, Mapping):
            continue
        for name, value in container.items():
            if name.startswith(prefix):
                test = tests.get(name[len(prefix) :])
                if test is not None and not test(value):
                    yield f"{location}{name} has a value that its profile does not allow"


def _check_healthcare(fields: Fields) -> Iterator[str]:
    """Yield the violations of rules for protected health information."""
    if not any(tag.startswith("phi:") for tag in fields["structural_tags"]):
        return
    if "processing_basis" not in fields:
        yield "processing_basis is required on protected health information"
    if _OPEN_LICENSE.match(str(fields.get("license", ""))):
        yield "protected health information cannot have an open license"


def _check_integration(fields: Fields) -> Iterator[str]:
    """Yield the violations of rules for an HTTP integration."""
    context = fields.get("context")
    if not isinstance(context, Mapping):
        return
    path, parameters = context.get("int:http_path"), context.get("int:path_params", [])
    if (
        isinstance(path, str)
        and _is_text_list(parameters)
        and set(_PARAMETER.findall(path)) != set(parameters)
    ):
        yield "context.int:path_params must name the parameters of context.int:http_path"
    if context.get("int:response_mapping") == "":
        yield "context.int:response_mapping must be a jq expression"


def _check_nothing(_: Fields) -> Iterator[str]:
    """Return no violations, for domains without further rules."""
    return iter(())


_DOMAINS: Final[
    Mapping[str, tuple[str, Mapping[str, _Test], Callable[[Fields], Iterator[str]]]]
] = {
    "healthcare": ("hc:", _HEALTHCARE, _check_healthcare),
    "legal": ("legal:", _LEGAL, _check_nothing),
    "finance": ("fin:", _FINANCE, _check_nothing),
    "robotics": ("rob:", _ROBOTICS, _check_nothing),
    "science": ("sci:", _SCIENCE, _check_nothing),
    "consumer": ("con:", _CONSUMER, _check_nothing),
    "integration": ("int:", _INTEGRATION, _check_integration),
}


def find_export_problem(fields: Fields, *, is_held: bool) -> str | None:
    """Return the domain rule that forbids exporting the grain, or None. `is_held` is the index's hold."""
    context = fields.get("context")
    all_fields = {**context, **fields} if isinstance(context, Mapping) else fields
    policy = fields.get("invalidation_policy")
    is_on_hold = is_held or (isinstance(policy, Mapping) and policy.get("mode") == "hold")
    if all_fields.get("legal:privilege") in _PRIVILEGED and not is_on_hold:
        return "legal profile: privileged material must be on legal hold before it can be exported"
    tags = [tag for tag in fields.get("structural_tags", ()) if isinstance(tag, str)]
    if fields.get("processing_basis"):
        return None
    if "profile:finance" in tags and any(tag.startswith("pii:") for tag in tags):
        return "finance profile: personal data needs a processing_basis before it can be exported"
    if "profile:consumer" in tags and fields.get("user_id"):
        return "consumer profile: a memory about a user needs a processing_basis before it can be exported"
    return None
