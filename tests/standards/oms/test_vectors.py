"""Every vector, byte for byte: those that the specification publishes, and what its other inputs give."""

from __future__ import annotations

from typing import Any, Final

import pytest
from tests.standards.oms.published import BY_ID, DID, MICRO, VECTORS, vector_input

from memoranda.encoding.bases import base58_decode
from memoranda.standards.oms import canonical, cbor, grains
from memoranda.standards.oms.header import MIN_BLOB_BYTES, namespace_hash

# Vectors 3 and 4 name no namespace, and the specification does not say what the header then holds. A grain without a
# namespace is in the default one (section 28.1), so it is routed there; this is also the only reading under which
# adding `namespace: "shared"` to such a grain does not move it to another bucket.
NAMESPACE_CANDIDATE: Final = "default_namespace_shared_a4d2"
# Section 4.7, 14.2 and appendix C compact related_to; section 4.9 step 3 forgets it.
CHOSEN: Final[dict[str, dict[str, Any]]] = {
    "V2": BY_ID["V2"]["verified"]["computed"],
    "V3": BY_ID["V3"]["verified"]["computed_candidates"][NAMESPACE_CANDIDATE],
    "V4": BY_ID["V4"]["verified"]["computed_candidates_related_to_compacted"][NAMESPACE_CANDIDATE],
    "V5": BY_ID["V5"]["verified"]["computed"],
    "V6": BY_ID["V6"]["verified"]["computed"],
}
OTHER_NAMESPACES: Final = ("sha256_of_empty_string_e3b0", "zero_0000")


def encode(fields: dict[str, Any], **options: Any) -> grains.Grain:
    return grains.encode(fields, default_namespace=None, **options)


@pytest.mark.requirement("OMS-17.2-vectors", "OMS-22.6-round-trip")
def test_vector_1_is_reproduced_byte_for_byte() -> None:
    expected = BY_ID["V1"]["expected"]
    grain = encode(vector_input("V1"))
    assert grain.blob == bytes.fromhex(expected["blob_hex"])
    assert grain.address == expected["content_address"]
    assert grains.decode(grain.blob, address=grain.address) == grain
    assert grain.fields == vector_input("V1")


@pytest.mark.requirement("OMS-17.2-vectors")
def test_vector_6_is_reproduced_byte_for_byte() -> None:
    expected = BY_ID["V6"]["expected"]
    grain = encode(vector_input("V6"))
    assert grain.address == expected["content_address"]
    assert grain.blob.hex(" ").startswith(expected["header_prefix_hex"])
    assert grain.header.created_at_sec == expected["header_timestamp_sec"]
    payload = canonical.decode_value(grain.blob[9:])
    assert list(payload) == expected["compacted_key_order"]
    assert list(payload["ip"]) == expected["nested_key_order"]


@pytest.mark.requirement("OMS-17.2-vectors", "OMS-22.6-round-trip")
@pytest.mark.parametrize("name", CHOSEN)
def test_vectors_without_a_published_value_give_the_reading_we_chose(name: str) -> None:
    grain = encode(vector_input(name))
    assert grain.blob.hex() == CHOSEN[name]["blob_hex"]
    assert grain.address == CHOSEN[name]["sha256"]
    again = grains.decode(grain.blob)
    assert encode(dict(again.fields)).blob == grain.blob


@pytest.mark.parametrize("candidate", OTHER_NAMESPACES)
@pytest.mark.parametrize(
    ("name", "readings"), [("V3", "computed_candidates"), ("V4", "computed_candidates_related_to_compacted")]
)
def test_other_readings_of_a_missing_namespace_can_be_read(name: str, readings: str, candidate: str) -> None:
    other = BY_ID[name]["verified"][readings][candidate]
    grain = grains.decode(bytes.fromhex(other["blob_hex"]), address=other["sha256"])
    assert grain.fields == vector_input(name)
    assert grain.namespace == "shared"


def test_content_of_an_event_under_the_key_of_an_action_is_not_taken_for_it() -> None:
    other = BY_ID["V2"]["verified"]["computed_if_content_compacted_as_cnt"]
    assert grains.encode(vector_input("V2")).address != other["sha256"]


@pytest.mark.requirement("OMS-16.2-cbor")
@pytest.mark.parametrize("name", ["V1", "V6"])
def test_cbor_follows_rfc_8949_and_has_an_address_of_its_own(name: str) -> None:
    expected = VECTORS["derived_not_in_spec"][f"{name}_cbor_rfc8949_order_shortest_float"]
    grain = encode(vector_input(name), cbor=True)
    assert grain.blob.hex() == expected["blob_hex"]
    assert grain.address == expected["sha256"]
    assert grains.decode(grain.blob).fields == vector_input(name)
    assert grain.address != BY_ID[name]["expected"]["content_address"]


@pytest.mark.requirement("OMS-8-type-names")
@pytest.mark.parametrize("name", ["V1", "V6"])
def test_a_belief_is_named_belief_or_fact_and_keeps_its_name(name: str) -> None:
    expected = VECTORS["derived_not_in_spec"][f"{name}_type_belief"]
    grain = encode({**vector_input(name), "type": "belief"})
    assert grain.blob.hex() == expected["blob_hex"]
    assert grain.address == expected["sha256"]
    assert (grain.type_name, grain.type_byte) == ("belief", 1)
    assert grains.decode(bytes.fromhex(BY_ID["V1"]["expected"]["blob_hex"])).type_name == "fact"


def test_the_example_of_appendix_g_has_the_address_that_was_computed_not_the_printed_one() -> None:
    vector = MICRO["complete example grain"]
    grain = encode(vector["input"])
    assert grain.address == vector["computed"]["related_to_compacted"]
    assert len(grain.blob) == vector["computed"]["length_compacted"]
    assert grain.address != vector["expected_example"]


@pytest.mark.requirement("OMS-4.8-datetimes")
def test_a_datetime_becomes_milliseconds() -> None:
    vector = MICRO["datetime"]
    fields = {**vector_input("V1"), "created_at": vector["input"]}
    grain = encode(fields)
    assert grain.fields["created_at"] == vector["expected"]
    assert grain.address == BY_ID["V1"]["expected"]["content_address"]


@pytest.mark.requirement("OMS-4.4-nfc")
def test_the_small_vectors_hold() -> None:
    assert canonical.encode_value("e\u0301") == b"\xa2\xc3\xa9"
    assert cbor.encode_value(1.5).hex() == MICRO["CBOR 1.5 shortest float"]["expected"]
    assert MICRO["minimum blob"]["expected"].startswith(f"{MIN_BLOB_BYTES} bytes")
    for namespace in ("shared", "safety"):
        assert namespace_hash(namespace).to_bytes(2, "big").hex(" ") == MICRO[f"ns hash '{namespace}'"]["expected"]
    raw = base58_decode(DID.removeprefix("did:key:z"))
    assert raw.hex() == MICRO["did:key decode"]["raw_hex"]
    keys = dict.fromkeys(MICRO["key order example"]["expected"], 1)
    assert list(canonical.decode_value(canonical.encode_value(keys))) == MICRO["key order example"]["expected"]
    assert " ".join(["c", "o", "r", "s", "t", "ca", "ns", "st", "adid"]) == " ".join(
        cbor.decode_value(cbor.encode_value(keys))
    )


def test_the_values_that_disclosure_hashes_have_their_bytes() -> None:
    computed = MICRO["elision examples (no hash in spec; computed)"]["computed"]
    for value, name in (
        ("alice-123", "user_id='alice-123'"),
        (0.95, "confidence=0.95"),
        ({"k": "v"}, "context={'k':'v'}"),
    ):
        assert canonical.encode_value(value).hex() == computed[name]["msgpack"]
        assert "sha256:" + grains.address_of(canonical.encode_value(value)) == computed[name]["hash"]
