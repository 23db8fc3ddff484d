"""What a record is, and what is said about one that is not."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.ump.published import (
    JSON_OBJECTS,
    JSON_VALUES,
    KEY,
    NOW,
    PROVENANCE,
    VECTORS,
    draft,
    full_record,
)

from memoranda.errors import InvalidInput
from memoranda.standards.ump import record as typed_record
from memoranda.standards.ump.signature import seal

# Here it is asked about what no type would let through, too.
record: Any = typed_record

BASE = draft()
SCOPE = BASE["scope"]

# The inputs behind the vectors' messages; the vectors name them but do not carry them.
VALIDATION_INPUTS: Any = {
    "ok": BASE,
    "empty": {},
    "ws_text": {**BASE, "body": {"text": "  "}},
    "extra_top": {**BASE, "extra": 1},
    "text_number": {**BASE, "body": {"text": 5}},
    "no_visibility": {**BASE, "scope": {"owner": KEY.did}},
    "id_upper": {**BASE, "id": "urn:ump:ABC"},
    "id_8": {**BASE, "id": "urn:ump:8"},
    "id_empty": {**BASE, "id": ""},
    "bad_version": {**BASE, "ump": "9"},
    "v10": {**BASE, "ump": "1.0"},
    "v01": {**BASE, "ump": "0.1"},
    "retention_bad": {**BASE, "consent": {"retention": "365D"}},
    "retention_P": {**BASE, "consent": {"retention": "P"}},
    "status_bad": {**BASE, "lifecycle": {"status": "dead"}},
    "conf": {**BASE, "lifecycle": {"confidence": 1.5}},
    "prov_partial": {**BASE, "provenance": {}},
    "null_structured": {**BASE, "body": {"text": "x", "structured": None}},
}

# vector -> (why ours differs, what ours says)
DIVERGENCES: dict[str, tuple[str, list[str]]] = {
    "empty": (
        "visibility defaults to private; provenance is REQUIRED at L2+ (section 2.6)",
        [
            *VECTORS["validation"]["empty"][:3],
            "provenance is required at L2+",
        ],
    ),
    "extra_top": (
        "the schema of the standard closes every object but body.structured: a misspelt field is refused",
        [f"'extra' is not a field of a record; the fields are {', '.join(record.KEY_ORDER)}"],
    ),
    "retention_P": (
        "a duration says how long",
        ["consent.retention must be an ISO-8601 duration (starts with P)"],
    ),
    "bad_version": ("records of 0.1 and 1.0 are read at once, for clients of both", ["ump version must be 0.1 or 1.0"]),
    "v10": ("records of 0.1 and 1.0 are read at once, for clients of both", []),
    "no_visibility": ("visibility defaults to private: section 3.3's own example omits it", []),
}


@pytest.mark.parametrize("name", VECTORS["validation"])
def test_messages_are_those_of_the_vectors_or_a_recorded_divergence(name: str) -> None:
    expected = DIVERGENCES[name][1] if name in DIVERGENCES else VECTORS["validation"][name]
    assert record.find_problems(VALIDATION_INPUTS[name]) == expected


@pytest.mark.parametrize("duration", ["P", "PT", "P1DT", "P1YT", "PT1", "P-1D", "P1H"])
@pytest.mark.requirement("UMP-2.7-retention")
def test_a_duration_says_how_long(duration: str) -> None:
    assert record.find_problems({**BASE, "consent": {"retention": duration}})


@pytest.mark.parametrize("duration", ["P1D", "PT1S", "P1Y2M3DT4H5M6.7S", "P2W", "PT0S", "P0D"])
def test_every_form_of_duration_is_read(duration: str) -> None:
    assert record.find_problems({**BASE, "consent": {"retention": duration}}) == []


@pytest.mark.requirement("UMP-2.3-two-timelines")
def test_what_ended_before_it_began_is_refused() -> None:
    time = {"valid_from": "2026-02-01T00:00:00Z", "valid_to": "2026-01-01T00:00:00Z"}
    assert record.find_problems({**BASE, "time": time}) == ["time.valid_to is before time.valid_from"]
    assert record.find_problems({**BASE, "time": {**time, "valid_to": time["valid_from"]}}) == []
    assert record.find_patch_problems({"time": time}) == ["time.valid_to is before time.valid_from"]


def test_the_vectors_own_records_are_complete() -> None:
    for stored in (
        full_record(),
        VECTORS["remember_signed"]["stored"],
        VECTORS["revise"]["successor"],
        VECTORS["revise"]["prior_closed"],
        VECTORS["retention"]["at_boundary"],
    ):
        assert record.check_complete(stored) is stored


@pytest.mark.requirement("UMP-2.4-hints")
def test_a_completed_and_sealed_draft_is_byte_for_byte_the_stored_vector() -> None:
    vector = VECTORS["remember_signed"]
    before = copy.deepcopy(vector["request"])
    sealed = seal(record.fill_defaults(vector["request"], now=NOW, version="0.1"), KEY)
    assert sealed == vector["stored"]
    assert list(sealed) == list(vector["stored"])
    assert sealed["id"] == vector["response"]["id"]
    assert vector["request"] == before


@pytest.mark.parametrize("spoken", record.VERSIONS)
def test_a_server_reads_both_versions_and_writes_its_own(spoken: record.Version) -> None:
    for version in record.VERSIONS:
        checked = record.check({**BASE, "ump": version})
        assert record.fill_defaults(checked, now=NOW, version=spoken)["ump"] == spoken
    assert record.find_problems({**BASE, "ump": "2.0"}) == ["ump version must be 0.1 or 1.0"]


def test_what_a_draft_says_survives_completion() -> None:
    full = full_record()
    assert record.fill_defaults(full, now=NOW, version="0.1") == full
    assert tuple(record.fill_defaults(full, now=NOW, version="0.1")) == record.KEY_ORDER[:-1]


@pytest.mark.requirement("OURS-visibility-defaults-to-private")
def test_a_missing_visibility_becomes_private() -> None:
    narrow = record.fill_defaults({**BASE, "scope": {"owner": "o"}}, now=NOW, version="0.1")
    assert narrow["scope"] == {"owner": "o", "visibility": "private"}
    assert narrow["id"] == ""


def test_provenance_may_be_waived() -> None:
    bare = {key: value for key, value in BASE.items() if key != "provenance"}
    assert record.find_problems(bare) == ["provenance is required at L2+"]
    assert record.find_problems(bare, require_provenance=False) == []


def with_field(path: str, value: Any) -> Any:
    changed = full_record()
    *parents, last = path.split(".")
    node: Any = changed
    for step in parents:
        node = node[int(step)] if isinstance(node, list) else node[step]
    node[int(last) if isinstance(node, list) else last] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("kind", ["semantic"]),
        ("kind", None),
        ("body", "text"),
        ("body.text", "x" * (record.MAX_TEXT_BYTES + 1)),
        ("body.text", "é" * (record.MAX_TEXT_BYTES // 2 + 1)),
        ("body.structured", [1]),
        ("scope", []),
        ("scope.owner", 7),
        ("scope.owner", {}),
        ("scope.owner", "a\nb"),
        ("scope.project", "a\0b"),
        ("scope.project", ""),
        ("scope.agent", "x" * 1025),
        ("scope.session", "\x7f"),
        ("scope.user", None),
        ("scope.visibility", None),
        ("id", "urn:ump:" + "a" * 300),
        ("id", "urn:ump:abc\n"),
        ("time", "now"),
        ("time.created", 5),
        ("time.created", "2026-06-04"),
        ("time.created", "2026-13-04T00:00:00Z"),
        ("time.observed", "2026-06-04T10:00:00"),
        ("time.valid_from", None),
        ("lifecycle", None),
        ("lifecycle.confidence", True),
        ("lifecycle.confidence", float("nan")),
        ("lifecycle.salience", -0.1),
        ("lifecycle.salience", "0.5"),
        ("lifecycle.decay", 1),
        ("supersedes", "urn:ump:aaaa"),
        ("supersedes", [1]),
        ("superseded_by", ["x"] * 10_001),
        ("relations", {}),
        ("relations", [{"type": "about", "target": "x"}] * 257),
        ("relations.0", "x"),
        ("relations.0.target", ""),
        ("provenance", []),
        ("provenance.actor", 1),
        ("provenance.actor_kind", "robot"),
        ("provenance.method", ["x"]),
        ("provenance.source", "x"),
        ("provenance.evidence", {"ref": "x"}),
        ("provenance.evidence.0.weight", "1"),
        ("provenance.evidence.0.ref", None),
        ("consent", True),
        ("consent.retention", 365),
        ("consent.retention", "Pfoo"),
        ("consent.exportable", "yes"),
        ("consent.redact", "body.text"),
        ("consent.redact", [""]),
        ("consent.redact", ["a..b"]),
        ("consent.redact", [3]),
        ("consent.redact", ["a"] * 65),
        ("integrity", {}),
        ("integrity", "x"),
        ("integrity", {"content_hash": "md5:x", "signature": "ed25519:x", "signer": "did:x"}),
    ],
)
@pytest.mark.requirement("UMP-2-required-fields")
def test_every_field_is_checked(path: str, value: Any) -> None:
    changed = with_field(path, value)
    assert record.find_problems(changed)
    with pytest.raises(InvalidInput):
        record.check(changed)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("body.title", "no such field"),
        ("scope.tenant", "x"),
        ("time.deleted", "2026-06-04T00:00:00Z"),
        ("lifecycle.mood", "good"),
        ("relations.0.weight", 1),
        ("provenance.source.url", "x"),
        ("provenance.evidence.0.note", "x"),
        ("consent.share", True),
        ("extra", 1),
    ],
)
def test_fields_that_the_schema_does_not_have_are_refused_by_name(path: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=path.rpartition(".")[2]):
        record.check(with_field(path, value))


def test_what_stands_in_structured_is_anybodys_and_kept() -> None:
    structured = {"ump:later": 1, "acme:colour": {"a": [None, 1.0]}, "title": "x"}
    changed = record.check(with_field("body.structured", structured))
    assert record.fill_defaults(changed, now=NOW, version="0.1")["body"]["structured"] == structured


@pytest.mark.parametrize("field", ["ump", "id", "kind", "body", "scope", "time"])
@pytest.mark.requirement("UMP-2-required-fields")
def test_a_full_record_needs_its_required_fields(field: str) -> None:
    partial = full_record()
    del partial[field]
    with pytest.raises(InvalidInput):
        record.check_complete(partial)


def test_a_full_record_needs_the_time_it_was_created() -> None:
    partial = full_record()
    del partial["time"]["created"]
    with pytest.raises(InvalidInput, match=r"time\.created is required"):
        record.check_complete(partial)


def test_what_cannot_be_hashed_is_not_a_record() -> None:
    assert record.find_problems({**BASE, "body": {"text": "\ud800"}})
    assert record.find_problems({**BASE, "body": {"text": "x", "structured": {"n": 10**400}}})
    big = {**BASE, "body": {"text": "x", "structured": {"s": "x" * record.MAX_RECORD_BYTES}}}
    assert record.find_problems(big) == [f"a record must be at most {record.MAX_RECORD_BYTES} bytes"]


SHAPED = st.fixed_dictionaries(
    {}, optional={field: JSON_VALUES | st.just(full_record().get(field)) for field in record.KEY_ORDER}
)


@given(JSON_VALUES | SHAPED | JSON_OBJECTS.map(lambda part: {**draft(), "provenance": {**PROVENANCE, **part}}))
def test_finding_problems_never_raises(value: object) -> None:
    assert isinstance(record.find_problems(value), list)
    assert isinstance(record.find_problems(value, require_provenance=False), list)
