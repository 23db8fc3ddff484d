"""Domain profiles: fields that are checked when a tag declares them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.standards.oms.published import ADDRESS, belief, refused

from memoranda.standards.oms import grains
from memoranda.standards.oms.profile import find_domain_problems

GOOD_AND_BAD: list[tuple[str, str, Any, Any]] = [
    ("healthcare", "hc:patient_id", "p-1", 5),
    ("healthcare", "hc:icd10", ["E11.9"], "E11.9"),
    ("healthcare", "hc:deidentification", "safe_harbor", "trust me"),
    ("legal", "legal:document_type", "contract", "napkin"),
    ("legal", "legal:privilege", "none", "some"),
    ("legal", "legal:parties", ["a", "b"], "a"),
    ("legal", "legal:redaction_level", "full", "most"),
    ("finance", "fin:transaction_type", "trade", "gift"),
    ("finance", "fin:risk_score", 0.3, "low"),
    ("finance", "fin:retention_years", 7, -1),
    ("robotics", "rob:safety_state", "emergency_stop", "panic"),
    ("robotics", "rob:battery_pct", 80.5, "full"),
    ("science", "sci:result_status", "replicated", "nice"),
    ("science", "sci:p_value", 0.05, 1.5),
    ("science", "sci:preregistered", True, "yes"),
    ("consumer", "con:device_type", "tv", "toaster"),
    ("consumer", "con:sentiment", -0.5, -1.5),
    ("consumer", "con:ccpa_opted_out", True, 1),
    ("integration", "int:cursor_type", "etag", "guess"),
    ("integration", "int:rate_limit", 60, "lots"),
]


@pytest.mark.requirement("OMS-A-profiles")
@pytest.mark.parametrize(("domain", "field", "good", "bad"), GOOD_AND_BAD)
def test_fields_of_a_domain_are_checked_when_it_is_declared_and_only_then(
    domain: str, field: str, good: Any, bad: Any
) -> None:
    tags = [f"profile:{domain}"]
    grains.encode(belief(structural_tags=tags, **{field: good}))
    with refused("ERR_SCHEMA", field):
        grains.encode(belief(structural_tags=tags, **{field: bad}))
    grains.encode(belief(**{field: bad}))


@pytest.mark.requirement("OMS-A-profiles")
def test_fields_inside_the_context_are_checked_too() -> None:
    with refused("ERR_SCHEMA", "context.int:cursor_type"):
        grains.encode(belief(structural_tags=["profile:integration"], context={"int:cursor_type": "x"}))


@pytest.mark.requirement("OMS-A.1-phi")
def test_health_data_has_a_basis_and_no_open_license() -> None:
    phi = belief(structural_tags=["profile:healthcare", "phi:name"])
    with refused("ERR_SCHEMA", "processing_basis"):
        grains.encode(phi)
    for license_name in ("CC0-1.0", "CC-BY-4.0", "MIT", "Apache-2.0"):
        with refused("ERR_SCHEMA", "open license"):
            grains.encode({**phi, "processing_basis": ADDRESS, "license": license_name})
    grains.encode({**phi, "processing_basis": ADDRESS, "license": "proprietary"})


@pytest.mark.requirement("OMS-A.7-integration")
def test_path_parameters_match_the_path() -> None:
    context = {"int:http_path": "/repos/{owner}/{repo}/issues", "int:path_params": ["owner", "repo"]}
    tags = ["profile:integration"]
    grains.encode(belief(structural_tags=tags, context=context))
    with refused("ERR_SCHEMA", "path_params"):
        grains.encode(belief(structural_tags=tags, context={**context, "int:path_params": ["owner"]}))
    with refused("ERR_SCHEMA", "jq"):
        grains.encode(belief(structural_tags=tags, context={**context, "int:response_mapping": ""}))


def test_an_unknown_profile_is_no_problem() -> None:
    assert find_domain_problems(belief(structural_tags=["profile:astrology", "profile:"])) == []
