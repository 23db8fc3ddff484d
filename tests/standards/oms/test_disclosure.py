"""Views: what they hide, what they prove, and what they must not give away."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.standards.oms.published import MICRO, belief, of_type, refused
from tests.standards.oms.strategies import NORMAL_VALUES, grain_fields

from memoranda.standards.oms import grains
from memoranda.standards.oms.disclosure import (
    NOT_ELIDABLE,
    NOT_ELIDABLE_EITHER,
    SALT_BYTES,
    disclose,
    is_elidable,
    verify_field,
    verify_view,
)
from memoranda.standards.oms.fields import INDEX_FIELDS
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.header import namespace_hash

ORIGINAL = grains.encode(
    belief(
        subject="Alice",
        relation="works_at",
        object="ACME Corp",
        user_id="alice-123",
        namespace="hr",
        context={"k": "v"},
    )
)
GOLDENS = MICRO["elision examples (no hash in spec; computed)"]["computed"]
HR = "sha256:15b9987ca81487c42d847612f14b919ea08405a6ed5ddafb41c82458da942c90"


def salts_for(*names: str) -> dict[str, bytes]:
    return {name: hashlib.sha256(name.encode()).digest() for name in (*names, "_disclosure_of")}


def elidable_fields(grain: Grain) -> list[str]:
    return [name for name in grain.fields if is_elidable(name)]


@pytest.mark.requirement("OMS-10.1-view")
def test_the_example_of_section_10_1() -> None:
    view = disclose(ORIGINAL, ["user_id", "namespace", "context"])
    assert view.fields == {
        "type": "belief",
        "subject": "Alice",
        "relation": "works_at",
        "object": "ACME Corp",
        "confidence": 0.9,
        "created_at": ORIGINAL.fields["created_at"],
        "_elided": {
            "user_id": GOLDENS["user_id='alice-123'"]["hash"],
            "namespace": HR,
            "context": GOLDENS["context={'k':'v'}"]["hash"],
        },
        "_disclosure_of": "sha256:" + ORIGINAL.address,
    }
    assert grains.decode(view.blob) == view
    assert view.address != ORIGINAL.address


@pytest.mark.requirement("OMS-10.1.1-hash")
def test_hashes_cover_the_canonical_value_alone() -> None:
    view = disclose(ORIGINAL, ["user_id"])
    assert verify_field(view, "user_id", "alice-123")
    for wrong in ("alice-124", "", None, 7, b"alice-123", ["alice-123"], object()):
        assert not verify_field(view, "user_id", wrong)
    assert not verify_field(view, "subject", "Alice")
    assert not verify_field(view, "user", "alice-123")
    assert verify_field(view, "_disclosure_of", ORIGINAL.address)
    assert not verify_field(view, "_disclosure_of", "0" * 64)
    assert not verify_field(view, "_disclosure_of", "junk")
    assert not verify_field(view, "_disclosure_of", 7)


@pytest.mark.requirement("OMS-10.1.1-hash")
def test_references_are_hashed_as_the_payload_has_them() -> None:
    links = [{"hash": "0" * 64, "relation_type": "similar", "weight": 0.5}]
    view = disclose(grains.encode(belief(related_to=links)), ["related_to"])
    payload = b"\x91\x83\xa1h\xd9\x40" + b"0" * 64 + b"\xa2rl\xa7similar\xa1w\xcb\x3f\xe0" + bytes(6)
    assert view.fields["_elided"]["related_to"] == "sha256:" + hashlib.sha256(payload).hexdigest()
    assert verify_field(view, "related_to", links)


@pytest.mark.requirement("OMS-10.2-elidable")
@pytest.mark.parametrize("name", sorted(NOT_ELIDABLE | NOT_ELIDABLE_EITHER | {"_elided", "_disclosure_of"}))
def test_what_must_stay_visible_cannot_be_elided(name: str) -> None:
    with refused("ERR_SCHEMA", "must stay visible"):
        disclose(ORIGINAL, [name])


# Section 10.2, second half.
ELIDABLE = frozenset(
    """subject object user_id namespace provenance_chain context structural_tags description criteria
    criteria_structured parent_goals state_reason satisfaction_evidence delegate_to delegate_from rollback_on_failure
    observer_id observer_model frame_id sync_group""".split()
)


@pytest.mark.requirement("OMS-10.2-elidable")
@pytest.mark.parametrize("name", sorted(ELIDABLE))
def test_everything_the_table_allows_may_be_elided(name: str) -> None:
    assert is_elidable(name)


def test_the_tables_do_not_contradict_one_another() -> None:
    assert not ELIDABLE & (NOT_ELIDABLE | NOT_ELIDABLE_EITHER)
    assert not NOT_ELIDABLE & NOT_ELIDABLE_EITHER
    assert not (ELIDABLE | NOT_ELIDABLE) & INDEX_FIELDS


def test_what_the_table_forgets_may_be_elided() -> None:
    event = grains.encode(of_type("event", content="secret", **{"x-note": "private"}))
    view = disclose(event, ["content", "x-note"])
    assert "content" not in view.fields
    assert grains.decode(view.blob) == view


def test_a_misspelt_name_does_not_show_what_it_meant_to_hide() -> None:
    with refused("ERR_SCHEMA", "no field 'user-id'"):
        disclose(ORIGINAL, ["user-id"])
    with refused("ERR_SCHEMA", "at least one field"):
        disclose(ORIGINAL, [])


def test_views_are_made_from_originals_only() -> None:
    with refused("ERR_SCHEMA", "already a view"):
        disclose(disclose(ORIGINAL, ["user_id"]), ["namespace"])


@pytest.mark.requirement("OMS-10-namespace-leak")
def test_the_header_tells_nothing_of_an_elided_namespace() -> None:
    kept, elided = disclose(ORIGINAL, ["user_id"]), disclose(ORIGINAL, ["namespace"])
    assert kept.header.ns_hash == namespace_hash("hr")
    elsewhere = disclose(grains.encode({**ORIGINAL.fields, "namespace": "legal"}), ["namespace"])
    assert elided.header == elsewhere.header
    assert elided.header.ns_hash == namespace_hash("")


def test_a_view_is_as_sensitive_as_its_original_also_without_the_tags() -> None:
    tagged = grains.encode(belief(structural_tags=["phi:name"]))
    assert disclose(tagged, ["structural_tags"]).header.sensitivity_name == "phi"


@pytest.mark.requirement("OMS-10.4-views-are-unsigned")
def test_the_view_of_a_signed_grain_is_not_signed() -> None:
    signed = grains.encode(belief(), signed=True)
    view = disclose(signed, ["subject"])
    assert not view.header.is_signed
    assert verify_view(view, signed)


def test_a_salted_view_cannot_be_guessed_at() -> None:
    names = ["user_id", "namespace"]
    salts = salts_for(*names)
    view = disclose(ORIGINAL, names, salts=salts)
    told = [*view.fields["_elided"].values(), view.fields["_disclosure_of"]]
    assert all(text.startswith("sha256-salted:") for text in told)
    assert grains.decode(view.blob) == view
    assert verify_view(view, ORIGINAL, salts=salts)
    assert not verify_view(view, ORIGINAL)
    for name in names:
        assert verify_field(view, name, ORIGINAL.fields[name], salts[name])
        assert not verify_field(view, name, ORIGINAL.fields[name])
        assert not verify_field(view, name, ORIGINAL.fields[name], salts[name][::-1])
        assert not verify_field(view, name, ORIGINAL.fields[name], salts[name][:-1])
    # Whoever knows all but the user must not find the user by trying addresses.
    assert ORIGINAL.address.encode() not in view.blob
    assert verify_field(view, "_disclosure_of", ORIGINAL.address, salts["_disclosure_of"])


def test_a_salted_hash_is_sha_256_of_salt_and_value() -> None:
    salts = salts_for("user_id")
    view = disclose(ORIGINAL, ["user_id"], salts=salts)
    data = salts["user_id"] + bytes.fromhex(GOLDENS["user_id='alice-123'"]["msgpack"])
    assert view.fields["_elided"]["user_id"] == "sha256-salted:" + hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    "salts",
    [
        {},
        {"user_id": bytes(SALT_BYTES)},
        {"_disclosure_of": bytes(SALT_BYTES)},
        {"user_id": bytes(SALT_BYTES), "_disclosure_of": bytes(SALT_BYTES)},
        {"user_id": b"short", "_disclosure_of": bytes(SALT_BYTES)},
        {**salts_for("user_id", "subject")},
    ],
)
def test_salts_are_given_for_everything_or_refused(salts: dict[str, bytes]) -> None:
    with refused("ERR_SCHEMA", "salts"):
        disclose(ORIGINAL, ["user_id"], salts=salts)


@given(grain_fields(), st.booleans(), st.booleans(), st.data())
@settings(max_examples=80)
def test_a_view_is_its_original_minus_what_it_elides(
    fields: dict[str, Any], cbor: bool, is_salted: bool, data: st.DataObject
) -> None:
    original = grains.encode(fields, cbor=cbor)
    names = data.draw(st.sets(st.sampled_from(elidable_fields(original)), min_size=1))
    salts = salts_for(*names) if is_salted else None
    view = disclose(original, names, salts=salts)
    assert grains.decode(view.blob) == view
    assert not names & view.fields.keys()
    assert verify_view(view, original, salts=salts)
    for name in names:
        assert verify_field(view, name, original.fields[name], salts[name] if salts else None)
    other = grains.encode({**fields, "created_at": (fields["created_at"] + 1000) % 2**32}, cbor=cbor)
    assert not verify_view(view, other, salts=salts)


@pytest.mark.parametrize(
    "change",
    [
        {"object": "Other Corp"},
        {"confidence": 1.0},
        {"x-added": 1},
        {"object": None},
        {"_disclosure_of": "sha256:" + "0" * 64},
        {"_disclosure_of": ORIGINAL.address},
        {"_elided": {"user_id": HR}},
        {"_elided": {"user_id": GOLDENS["user_id='alice-123'"]["hash"], "session_id": HR}},
        {"_elided": {}},
        {"_elided": {"user_id": 7}},
    ],
)
def test_a_view_that_differs_in_anything_else_is_not_one(change: dict[str, Any]) -> None:
    view = disclose(ORIGINAL, ["user_id"])
    assert verify_view(view, ORIGINAL)
    changed = {name: value for name, value in {**view.fields, **change}.items() if value is not None}
    if "object" not in changed:
        changed["_elided"] = {**changed["_elided"], "object": HR}
    assert not verify_view(grains.encode(changed, default_namespace=None), ORIGINAL)


def test_short_keys_in_a_foreign_view_are_understood() -> None:
    view = disclose(ORIGINAL, ["user_id"])
    foreign = grains.encode(
        {**view.fields, "_elided": {"user": view.fields["_elided"]["user_id"]}}, default_namespace=None
    )
    assert verify_field(foreign, "user_id", "alice-123")
    assert verify_view(foreign, ORIGINAL)


@given(st.dictionaries(st.text(max_size=6), NORMAL_VALUES, max_size=3), NORMAL_VALUES)
@settings(max_examples=50)
def test_hostile_views_verify_nothing_and_never_crash(elided: dict[str, Any], value: Any) -> None:
    view = Grain({**ORIGINAL.fields, "_elided": elided}, "belief", 1, ORIGINAL.address, ORIGINAL.blob, ORIGINAL.header)
    assert not verify_view(view, ORIGINAL)
    for name in ("user_id", *elided):
        assert not verify_field(view, name, value)
