"""Warnings: what a valid grain should do better."""

from __future__ import annotations

from typing import Any

import pytest
from tests.standards.oms.published import ADDRESS, TYPE_NAMES, belief, of_type

from memoranda.standards.oms import grains
from memoranda.standards.oms.advice import warnings_for


def warned(fields: dict[str, Any]) -> str:
    """The warnings about a grain that is accepted all the same."""
    return "\n".join(warnings_for(grains.encode(fields).fields))


@pytest.mark.parametrize("name", TYPE_NAMES)
def test_a_plain_grain_gives_no_warning(name: str) -> None:
    assert warned(of_type(name)) == ""


@pytest.mark.requirement("OMS-17.2-observer-model")
@pytest.mark.parametrize("observer", ["llm", "reflector", "classifier", "detector"])
def test_a_model_that_observes_should_be_named(observer: str) -> None:
    assert "observer_model" in warned(of_type("observation", observer_type=observer))
    assert warned(of_type("observation", observer_type=observer, observer_model="m")) == ""


@pytest.mark.requirement("OMS-26-scope-warning")
def test_a_reflection_should_say_its_scope_and_its_sources() -> None:
    fields = of_type("observation", observer_type="human", observation_mode="reflective")
    assert "observation_scope" in warned(fields)
    assert "derived_from" in warned(fields)
    assert warned({**fields, "observation_scope": "session", "derived_from": [ADDRESS]}) == ""


@pytest.mark.requirement("OMS-25-probe")
def test_an_active_observation_should_record_its_probe() -> None:
    fields = of_type("observation", observation_mode="active")
    assert "context.probe" in warned(fields)
    assert warned({**fields, "context": {"probe": "ping"}}) == ""


@pytest.mark.requirement("OMS-24-source-type")
@pytest.mark.parametrize(
    ("observer", "source"), [("lidar", "sensor"), ("llm", "agent_inferred"), ("human", "user_explicit")]
)
def test_the_source_should_fit_the_observer(observer: str, source: str) -> None:
    model = {"observer_model": "m"} if observer == "llm" else {}
    fields = of_type("observation", observer_type=observer, **model)
    assert warned({**fields, "source_type": source}) == ""
    assert source in warned({**fields, "source_type": "imported"})


@pytest.mark.requirement("OMS-24.3-prefix")
def test_a_custom_observer_should_have_a_prefix() -> None:
    assert "prefix" in warned(of_type("observation", observer_type="thermal"))
    assert warned(of_type("observation", observer_type="acme:thermal")) == ""


@pytest.mark.requirement("OMS-27.3-timeless")
@pytest.mark.parametrize("source", ["established_knowledge", "axiomatic"])
def test_what_is_always_true_should_be_certain_locked_and_nobodys(source: str) -> None:
    found = warned(belief(source_type=source, user_id="u", valid_to=1, confidence=0.5))
    assert all(name in found for name in ("user_id", "valid_to", "confidence", "invalidation_policy"))
    assert warned(belief(source_type=source, confidence=1.0, invalidation_policy={"mode": "locked"})) == ""


@pytest.mark.requirement("OMS-6.11-delegation")
def test_a_delegation_should_have_bounds() -> None:
    fields = of_type("goal", relation="mg:delegates_to", subject="a", object="b")
    found = warned({**fields, "authorized_namespaces": ["*"]})
    assert "authorized_namespaces" in found
    assert "delegation_depth" in found
    assert warned({**fields, "authorized_namespaces": ["x"], "delegation_depth": 0}) == ""


@pytest.mark.requirement("OMS-8-mg-prefix")
def test_the_prefix_mg_is_reserved() -> None:
    assert "reserved" in warned(belief(relation="mg:invented"))
    assert warned(belief(relation="mg:knows")) == ""
    assert warned(belief(relation="acme:invented")) == ""


@pytest.mark.requirement("OMS-23.9-tag-only")
def test_a_tag_alone_protects_nothing() -> None:
    assert "mg:protected" in warned(belief(structural_tags=["mg:protected"]))
    assert warned(belief(structural_tags=["mg:protected"], invalidation_policy={"mode": "locked"})) == ""


@pytest.mark.requirement("OMS-27.1-omit")
def test_an_action_should_leave_out_what_its_phase_does_not_use() -> None:
    assert "derived_from" in warned(of_type("action", derived_from=[ADDRESS]))
    call = of_type("action", action_phase="call", content=None, is_error=None)
    assert "tool_call_id" in warned(call)
    assert warned({**call, "tool_call_id": "c"}) == ""


def test_warnings_survive_any_nonsense() -> None:
    for fields in (
        {},
        {"type": 5},
        {"type": "observation", "observer_type": 5},
        {"type": "action", "action_phase": []},
    ):
        assert isinstance(warnings_for(fields), tuple)
