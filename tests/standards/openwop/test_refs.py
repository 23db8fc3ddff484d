"""memoryRef: what is well-formed, and that refs and spaces are a bijection."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.standards.openwop.strategies import json_values, spaces

from memoranda.errors import InvalidInput
from memoranda.standards.openwop.refs import (
    DEFAULT_REF,
    MAX_REF_CHARS,
    is_ref,
    mark_of,
    qualify_ref,
    ref_of,
    resolve_ref,
    space_of,
)

# The examples of the specification, and those of the conformance suite.
USUAL = (
    "workspaces/tenant-A/agents/agent-1/memories",
    "mem://customer-support/agent-1",
    "agent-1",
    "conformance/agent-memory-roundtrip",
    "conformance/another-tenant/agent-memory",
    "mem_tenant:default_agent:conformance-rfc0012-event_longTerm",
    "conformance-distill",
    "mem://conformance/consolidation",
    "urn:openwop:memory:host:42",
    "a%20b",
    "a%2Fb",
    "100%",
    "名前/子",
    "x" * MAX_REF_CHARS,
)


@pytest.mark.requirement("WOP-1.3-ref")
@pytest.mark.parametrize("ref", USUAL)
def test_a_usual_ref_is_the_space_of_the_same_name(ref: str) -> None:
    assert is_ref(ref)
    assert space_of(ref) == ref
    assert ref_of(ref) == ref


@pytest.mark.requirement("WOP-1.3-malformed")
@pytest.mark.parametrize(
    "ref",
    [
        "",
        "x" * (MAX_REF_CHARS + 1),
        "a\x00b",
        "a\nb",
        "a\x7fb",
        "a\x85b",
        "a\u2028b",
        "..",
        "../secrets",
        "a/../b",
        "a/..",
        "./a",
        "a\\b",
        "..\\a",
        "\ud800",
        "%2E%2E/a",
        "a%2Eb",
        "%25",
        "%5c%5C%5",
        "%~abc",
        "memoranda://t-aaaaaaaaaaaaaaaaaaaa/a",
        None,
        7,
        ["a"],
    ],
)
def test_a_malformed_ref_is_no_ref(ref: object) -> None:
    if ref == "%5c%5C%5":
        # Lower case is not our spelling, so it stands for itself; the one in the middle is.
        assert space_of("%5c%5C%5") == "%5c\\%5"
        return
    if ref == "%25":
        # An escape of a percent sign that needs none.
        assert ref_of("%") == "%"
    assert not is_ref(ref)
    assert resolve_ref(ref, "tenant") is None
    if isinstance(ref, str):
        with pytest.raises(InvalidInput):
            space_of(ref)


@pytest.mark.requirement("WOP-1.3-malformed")
@given(json_values)
def test_nothing_that_is_sent_as_a_ref_raises(value: object) -> None:
    assert is_ref(value) in (True, False)
    assert resolve_ref(value, "tenant") is None or isinstance(value, str)


def test_the_space_without_a_name_has_a_ref() -> None:
    assert ref_of("") == DEFAULT_REF == "default"
    assert space_of("default") == ""
    assert ref_of("default") == "%64efault"
    assert space_of("%64efault") == "default"


@pytest.mark.requirement("WOP-1.3-bijection")
@given(spaces)
def test_every_space_has_a_ref_that_leads_back(space: str) -> None:
    ref = ref_of(space)
    assert 0 < len(ref) <= MAX_REF_CHARS
    if is_ref(ref):
        assert space_of(ref) == space
    else:
        # Only a name that is too long is called by a digest.
        assert ref.startswith("%~")
        assert len(space) > MAX_REF_CHARS // 9


@pytest.mark.requirement("WOP-1.3-bijection")
@given(st.one_of(spaces, st.text(st.sampled_from("%25CE2680A8.~/d-faultm\u0085"), min_size=1, max_size=20)))
def test_every_well_formed_ref_is_the_ref_of_its_space(ref: str) -> None:
    assume(is_ref(ref))
    assert ref_of(space_of(ref)) == ref


@pytest.mark.requirement("WOP-1.3-bijection")
@given(spaces, spaces)
def test_two_spaces_never_share_a_ref(left: str, right: str) -> None:
    assert (ref_of(left) == ref_of(right)) == (left == right)


@pytest.mark.requirement("WOP-1.3-malformed")
@given(spaces)
def test_no_ref_of_a_space_looks_like_a_traversal(space: str) -> None:
    ref = ref_of(space)
    assert not {".", ".."} & set(ref.split("/"))
    assert "\\" not in ref
    assert "\x00" not in ref


def test_a_long_name_is_called_by_a_digest_that_is_not_resolved() -> None:
    ref = ref_of("x" * 257)
    assert not is_ref(ref)
    assert ref != ref_of("x" * 258)


@pytest.mark.parametrize("text", ["a\x00", "\ud800", "\x1f"])
def test_what_is_no_space_still_has_something_to_be_called_by(text: str) -> None:
    assert not is_ref(ref_of(text))


@pytest.mark.requirement("WOP-3-cti-shape")
def test_a_ref_of_another_tenants_shape_resolves_to_nothing() -> None:
    assert resolve_ref("agent-1", "alice") == resolve_ref("agent-1", "bob") == "agent-1"
    assert resolve_ref(qualify_ref("agent-1", "alice"), "alice") == "agent-1"
    assert resolve_ref(qualify_ref("agent-1", "alice"), "bob") is None
    assert resolve_ref(qualify_ref("a/../b", "alice"), "alice") is None
    assert mark_of("alice") != mark_of("bob")
    assert "alice" not in mark_of("alice")
