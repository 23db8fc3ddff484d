"""A grain: fields, bytes and address belong together."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from tests.standards.oms.published import ADDRESS, BY_ID, CREATED_AT, belief, of_type, refused
from tests.standards.oms.test_types import blob_of

from memoranda.errors import TooLarge
from memoranda.standards.oms import canonical, grains
from memoranda.standards.oms.header import HEADER_BYTES, SENSITIVITIES

V1 = bytes.fromhex(BY_ID["V1"]["expected"]["blob_hex"])


@pytest.mark.requirement("OMS-5-address", "OMS-5.2-sha256")
def test_the_address_is_the_sha256_of_header_and_payload() -> None:
    grain = grains.encode(belief())
    assert grain.address == hashlib.sha256(grain.blob).hexdigest()
    assert len(grain.address) == 64
    assert grain.address == grain.address.lower()


@pytest.mark.requirement("OMS-5.5-creation-time")
def test_the_same_thought_at_another_second_is_another_grain() -> None:
    assert grains.encode(belief()).address != grains.encode(belief(created_at=CREATED_AT + 1000)).address


@pytest.mark.requirement("OMS-5-address-format")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "ERR_HASH_LENGTH"),
        (ADDRESS[:-1], "ERR_HASH_LENGTH"),
        (ADDRESS + "0", "ERR_HASH_LENGTH"),
        (ADDRESS.upper(), "ERR_HASH_FORMAT"),
        ("g" * 64, "ERR_HASH_FORMAT"),
        ("٣" * 64, "ERR_HASH_FORMAT"),
        (ADDRESS[:-1] + "\n", "ERR_HASH_FORMAT"),
        ("sha256:" + ADDRESS[7:], "ERR_HASH_FORMAT"),
    ],
)
def test_only_lower_case_hexadecimal_of_64_characters_is_an_address(text: str, code: str) -> None:
    with refused(code):
        grains.check_address(text)
    with refused(code):
        grains.decode(V1, address=text)


@pytest.mark.requirement("OMS-17.1-verify")
def test_bytes_under_another_address_are_refused() -> None:
    assert grains.check_address(ADDRESS) == ADDRESS
    assert grains.decode(V1, address=ADDRESS).address == ADDRESS
    with refused("ERR_INTEGRITY"):
        grains.decode(V1, address="0" * 64)


@pytest.mark.requirement("OMS-19.1-format")
@pytest.mark.parametrize("payload", ["", 5, [1], "text", None, True, 1.5])
def test_a_payload_that_is_no_map_is_refused(payload: Any) -> None:
    with refused("ERR_NOT_MAP"):
        grains.decode(V1[:HEADER_BYTES] + canonical.encode_value(payload))


@pytest.mark.requirement("OMS-19.1-format")
def test_a_grain_has_a_type() -> None:
    with refused("ERR_NO_TYPE"):
        grains.decode(V1[:HEADER_BYTES] + b"\x80")
    with refused("ERR_NO_TYPE"):
        grains.encode(belief(type=None))
    with refused("ERR_SCHEMA", "type must be text"):
        grains.encode(belief(type=5))
    with refused("ERR_EMPTY", "type"):
        grains.encode(belief(type=""))


@pytest.mark.requirement("OMS-19.1-format")
def test_what_is_no_map_of_fields_is_refused() -> None:
    values: list[Any] = [[], "x", None, 5]
    for value in values:
        with refused("ERR_NOT_MAP"):
            grains.encode(value)


@pytest.mark.requirement("OMS-8-type-names")
def test_the_type_byte_and_the_type_name_must_agree() -> None:
    with refused("ERR_SCHEMA", "belief"):
        grains.decode(blob_of(of_type("event"), type_byte=1))
    with refused("ERR_UNKNOWN_TYPE", "episode"):
        grains.decode(blob_of(belief(type="episode"), type_byte=1))
    with refused("ERR_SCHEMA"):
        grains.decode(blob_of(belief(), type_byte=0xF0))
    with refused("ERR_SCHEMA"):
        grains.encode(belief(), type_byte=2)


@pytest.mark.requirement("OMS-8-type-names")
def test_an_action_is_named_action_or_tool() -> None:
    grain = grains.encode(of_type("action", type="tool"))
    assert (grain.type_name, grain.type_byte) == ("tool", 5)
    assert grains.decode(grain.blob).fields["content"] == "done"


@pytest.mark.requirement("OMS-19.1-unknown-type")
@pytest.mark.parametrize("byte", [0x00, 0x0B, 0x80, 0xEF])
def test_reserved_types_are_refused_unless_an_opaque_map_will_do(byte: int) -> None:
    blob = blob_of({"type": "skill", "created_at": CREATED_AT, "namespace": "shared", "x": [1]}, byte)
    with refused("ERR_UNKNOWN_TYPE"):
        grains.decode(blob)
    grain = grains.decode(blob, strict=False)
    assert (grain.type_name, grain.type_byte, grain.fields["x"]) == ("skill", byte, [1])


@pytest.mark.requirement("OMS-3.1-domain-types")
@pytest.mark.parametrize("byte", [0xF0, 0xFF])
def test_applications_have_types_of_their_own(byte: int) -> None:
    fields = {"type": "hc:encounter", "created_at": CREATED_AT, "namespace": "clinic", "hc:encounter_id": "e1"}
    grain = grains.encode(fields, type_byte=byte)
    assert grains.decode(grain.blob) == grain
    assert (grain.type_name, grain.type_byte) == ("hc:encounter", byte)
    for wrong in (None, 0x0B, 0xEF, 0x100):
        with refused("ERR_UNKNOWN_TYPE"):
            grains.encode(fields, type_byte=wrong)


# Section 27.4: the identifiers of 45 CFR 164.514(b), and any other word.
PHI = """name geo_subdivision date age_over_89 phone fax email ssn mrn health_plan_id account_number certificate_license
vehicle_id device_id url ip_address biometric photo diagnosis""".split()


@pytest.mark.requirement("OMS-13-tags")
@pytest.mark.parametrize(
    ("tags", "least"),
    [
        ([], 0),
        (["plain", "mg:protected"], 0),
        (["reg:gdpr"], 1),
        (["pii:email"], 2),
        (["sec:key"], 2),
        (["legal:ownership"], 2),
        (["phi:anything"], 3),
        (["reg:x", "pii:x", "phi:x"], 3),
        *[([f"phi:{name}"], 3) for name in PHI],
    ],
)
def test_tags_set_the_least_sensitivity(tags: list[str], least: int) -> None:
    grain = grains.encode(belief(structural_tags=tags))
    assert grain.header.sensitivity == least
    assert grain.header.sensitivity_name == SENSITIVITIES[least]
    assert grains.encode(belief(structural_tags=tags), sensitivity=0).header.sensitivity == least
    assert grains.encode(belief(structural_tags=tags), sensitivity=3).header.sensitivity == 3


@pytest.mark.requirement("OMS-13-mismatch")
@pytest.mark.parametrize(("tag", "claimed"), [("phi:x", 2), ("pii:x", 1), ("reg:x", 0), ("phi:x", 0)])
def test_a_header_that_claims_less_than_the_tags_is_refused(tag: str, claimed: int) -> None:
    blob = grains.encode(belief(structural_tags=[tag])).blob
    with refused("ERR_SENSITIVITY_MISMATCH"):
        grains.decode(blob[:1] + bytes([claimed << 6]) + blob[2:])


def test_a_sensitivity_is_one_of_four() -> None:
    with refused("ERR_RANGE"):
        grains.encode(belief(), sensitivity=4)


@pytest.mark.requirement("OMS-4.3-float64")
def test_an_integer_for_a_float_field_is_written_as_a_float_and_refused_when_read() -> None:
    links = [{"hash": ADDRESS, "relation_type": "similar", "weight": 1}]
    given = belief(confidence=1, importance=0, related_to=links)
    grain = grains.encode(given)
    assert (
        grain.blob
        == grains.encode(belief(confidence=1.0, importance=0.0, related_to=[{**links[0], "weight": 1.0}])).blob
    )
    assert links[0]["weight"] == 1
    assert isinstance(links[0]["weight"], int)
    with refused("ERR_SCHEMA", "confidence must be a float"):
        grains.decode(blob_of(given))


@pytest.mark.requirement("OMS-4.8-datetimes")
def test_datetimes_may_be_given_as_text_and_never_read_as_text() -> None:
    grain = grains.encode(belief(valid_from="2026-01-15T12:00:00.0019+02:00"))
    assert grain.fields["valid_from"] == CREATED_AT + 1
    with refused("ERR_SCHEMA", "valid_from"):
        grains.decode(blob_of(belief(valid_from="2026-01-15T12:00:00Z")))


@pytest.mark.requirement("OMS-4.5-no-defaults")
def test_a_default_namespace_is_written_only_where_none_was_and_only_if_wanted() -> None:
    bare = belief(namespace=None)
    assert grains.encode(bare).fields["namespace"] == "shared"
    exact = grains.encode(bare, default_namespace=None)
    assert "namespace" not in exact.fields
    assert exact.namespace == "shared"
    assert exact.header.ns_hash == grains.encode(bare).header.ns_hash
    again = grains.decode(exact.blob)
    assert grains.encode(again.fields, default_namespace=None).blob == exact.blob
    assert bare == belief(namespace=None)


@pytest.mark.requirement("OMS-4.5-nulls")
def test_null_fields_are_absent_fields() -> None:
    given = {**belief(), "importance": None, "context": {"a": None, "b": "c"}}
    grain = grains.encode(given)
    assert "importance" not in grain.fields
    assert grain.fields["context"] == {"b": "c"}


def test_binary_is_for_timestamps_and_signatures_only() -> None:
    grain = grains.encode(belief(trusted_timestamp={"tsp_response": b"\x00\xff"}, supersession_auth=[b"cose"]))
    assert grains.decode(grain.blob).fields == grain.fields
    with refused("ERR_CORRUPT", "binary"):
        grains.encode(belief(context={"deep": [b"x"]}))
    with refused("ERR_CORRUPT", "binary"):
        grains.decode(blob_of(belief(context={"deep": [b"x"]})))


@pytest.mark.requirement("OMS-18-profiles", "OMS-4.10-depth")
def test_a_grain_has_at_most_the_size_of_the_extended_profile() -> None:
    with pytest.raises(TooLarge, match="1048576"):
        grains.encode(belief(object="x" * 1_048_576))


def test_a_grain_is_frozen_and_does_not_show_its_bytes() -> None:
    grain = grains.encode(belief())
    assert "blob" not in repr(grain)
    with pytest.raises(AttributeError):
        grain.address = "x"  # type: ignore[misc]
