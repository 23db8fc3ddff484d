"""How records change: against the vectors, and where ours changes them otherwise on purpose."""

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
    NOW_TEXT,
    PROVENANCE,
    VECTORS,
    draft,
    full_record,
)

from memoranda.model.instant import DAY_MS, format_instant
from memoranda.standards.ump import record
from memoranda.standards.ump import rules as typed_rules
from memoranda.standards.ump.record import fill_defaults, find_problems
from memoranda.standards.ump.signature import seal, sign, verify

# Here they are asked about what no type would let through, too.
rules: Any = typed_rules

# vector -> why ours differs
DIVERGENCES = {
    "merge": "confidence is rounded to two decimals, so that 0.7999999999999999 does not enter the hash",
    "consent.redact": "the list of what to redact survives redaction: the next boundary needs it again",
}


def stored(**fields: Any) -> Any:
    return fill_defaults(draft(**fields), now=NOW, version="0.1")


def unsigned(vector: Any) -> Any:
    return {key: value for key, value in vector.items() if key != "integrity"}


# --- vectors -----------------------------------------------------------------------------------------


def test_two_merges_give_the_published_record_but_for_the_rounding() -> None:
    second = draft(provenance={**PROVENANCE, "actor_kind": "agent", "evidence": [{"ref": "e2"}]})
    once = rules.merge(VECTORS["remember_signed"]["stored"], second, now=NOW)
    assert once is not None
    twice = rules.merge(once, draft(), now=NOW)
    expected = unsigned(VECTORS["merge"]["stored_after_two_merges"])
    assert expected["lifecycle"]["confidence"] == 0.7999999999999999
    assert twice == {**expected, "lifecycle": {"status": "active", "confidence": 0.8}}
    assert list(twice) == list(expected)


@pytest.mark.requirement("UMP-3.5-revise")
def test_a_revision_gives_the_published_successor_and_prior() -> None:
    prior = VECTORS["merge"]["stored_after_two_merges"]
    before = copy.deepcopy(prior)
    patch = {
        "body": {"text": "Use bun."},
        "lifecycle": {"salience": 0.9},
        "time": {"valid_from": "2026-06-05T00:00:00Z"},
    }
    successor = seal(rules.make_successor(prior, patch, now=NOW, actor=("did:key:zAgentActor", "agent")), KEY)
    assert successor == VECTORS["revise"]["successor"]
    assert list(successor) == list(VECTORS["revise"]["successor"])
    closed = sign(rules.close(prior, valid_to=NOW_TEXT, successor_id=successor["id"]), KEY)
    assert closed == VECTORS["revise"]["prior_closed"]
    assert verify(closed) is VECTORS["revise"]["prior_verifies"]
    assert prior == before


def test_soft_forgetting_gives_the_published_record() -> None:
    sealed = seal(stored(text="throwaway"), KEY)
    assert sign(rules.tombstone(sealed, at=NOW_TEXT), KEY) == VECTORS["forget_soft"]["stored"]


def test_hard_forgetting_gives_the_published_record() -> None:
    vector = VECTORS["forget_hard"]["stored"]
    before = {**vector, "body": {"text": "secret"}, "lifecycle": {"status": "active", "confidence": 0.6}}
    assert sign(rules.erase(before, reason="gdpr"), KEY) == vector


def test_retention_gives_the_published_record_at_its_boundary() -> None:
    sealed = seal(stored(text="expiring", consent={"retention": "P1D"}), KEY)
    ends = rules.retention_end(sealed)
    assert ends == NOW + DAY_MS
    assert sign(rules.tombstone(sealed, at=format_instant(ends)), KEY) == VECTORS["retention"]["at_boundary"]


def test_redaction_gives_the_published_export() -> None:
    signed = sign(full_record(), KEY)
    redacted, changed = rules.redact(signed)
    assert changed
    assert [redacted] == VECTORS["redact"]["export"]
    assert verify(redacted) is VECTORS["redact"]["redacted_still_verifies"]
    assert "token" in (signed["body"].get("structured") or {})


@pytest.mark.parametrize("vector", VECTORS["redact"]["paths"], ids=lambda vector: vector["path"])
def test_each_published_path(vector: Any) -> None:
    source = {**full_record(), "consent": {"redact": [vector["path"]]}}
    redacted, changed = rules.redact(source)
    if vector["path"] == "$.body.text":
        # The reference takes `$` for a field, finds none, and shows what was to be hidden.
        assert (vector["out"], redacted["body"]["text"]) == (source, "[redacted]")
    elif vector["path"] in DIVERGENCES:
        assert (redacted, changed) == (source, False)
    else:
        assert redacted == vector["out"]
        assert changed is (vector["out"] != source)


# --- merge -------------------------------------------------------------------------------------------


def test_a_merge_keeps_everything_the_newcomer_brings() -> None:
    existing = {
        **stored(),
        "body": {"text": "T", "structured": {"a": {"x": 1}, "l": [1]}},
        "relations": [{"type": "about", "target": "entity:a"}],
        "provenance": {**PROVENANCE, "evidence": [{"ref": "e1"}]},
        "lifecycle": {"status": "candidate", "confidence": 0.6, "salience": 0.4},
    }
    newcomer = draft(
        body={"text": " t ", "structured": {"a": {"y": 2}, "l": [1], "n": None}},
        relations=[{"type": "about", "target": "entity:a"}, {"type": "about", "target": "entity:b"}],
        provenance={
            "actor": "did:key:zOther",
            "actor_kind": "agent",
            "method": "inference",
            "source": {"ref": "s#1"},
            "evidence": [{"ref": "e1"}, {"ref": "e2", "weight": 0.5}],
        },
        lifecycle={"confidence": 0.95, "salience": 0.2},
    )
    merged = rules.merge(existing, newcomer, now=NOW + 5)
    assert merged is not None
    assert merged["body"] == {"text": "T", "structured": {"a": {"x": 1, "y": 2}, "l": [1], "n": None}}
    assert [relation["target"] for relation in merged["relations"]] == ["entity:a", "entity:b"]
    assert merged["provenance"]["actor"] == KEY.did
    assert merged["provenance"]["evidence"] == [
        {"ref": "e1"},
        {"ref": "e2", "weight": 0.5},
        {"ref": "s#1", "weight": 1},
    ]
    assert merged["lifecycle"] == {"status": "active", "confidence": 0.95, "salience": 0.4}
    assert merged["time"] == {**existing["time"], "observed": format_instant(NOW + 5)}
    assert merged["id"] == existing["id"]


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "urn:ump:other"},
        {"body": {"text": "x", "structured": {"a": 2}}},
        {"body": {"text": "x", "structured": {"a": True}}},
        {"body": {"text": "x", "structured": {"b": {"c": 2}}}},
        {"consent": {"exportable": False}},
        {"lifecycle": {"decay": "half_life:P1D"}},
        {"lifecycle": {"status": "tombstoned"}},
        {"time": {"valid_from": "2026-01-01T00:00:00Z"}},
        {"time": {"valid_to": "2027-01-01T00:00:00Z"}},
        {"supersedes": ["urn:ump:old"]},
        {"relations": [{"type": "about", "target": f"entity:{n}"} for n in range(record.MAX_RELATIONS + 1)]},
    ],
)
def test_a_newcomer_that_would_lose_something_is_not_merged(fields: Any) -> None:
    existing = {**stored(), "id": "urn:ump:aaaa", "body": {"text": "x", "structured": {"a": 1, "b": {"c": 1}}}}
    assert rules.merge(existing, draft(**fields), now=NOW) is None


def test_the_same_instant_in_another_spelling_is_no_conflict() -> None:
    same = draft(time={"valid_from": "2026-06-04T12:00:00+02:00", "valid_to": None})
    assert rules.merge(stored(), same, now=NOW) is not None


def test_confidence_stops_at_one_and_provenance_is_adopted_where_none_was() -> None:
    existing = {**stored(), "lifecycle": {"confidence": 0.97}}
    del existing["provenance"]
    merged = rules.merge(existing, draft(), now=NOW)
    assert merged is not None
    assert merged["lifecycle"] == {"confidence": 1, "status": "active"}
    assert merged["provenance"] == PROVENANCE
    assert find_problems(merged | {"id": "urn:ump:aaaa"}) == []


def test_evidence_does_not_grow_without_end() -> None:
    existing = {**stored(), "provenance": {**PROVENANCE, "evidence": [{"ref": str(n)} for n in range(256)]}}
    merged = rules.merge(existing, draft(provenance={**PROVENANCE, "evidence": [{"ref": "new"}]}), now=NOW)
    assert merged is not None
    assert len(merged["provenance"]["evidence"]) == record.MAX_EVIDENCE
    assert merged["provenance"]["evidence"][-1] == {"ref": "new"}


def test_the_same_fact_is_the_same_text_in_the_same_scope() -> None:
    base = stored(text="Use Caf\u00e9")
    assert rules.fact_key(base) == rules.fact_key(stored(text="  use cafe\u0301\n"))
    assert rules.fact_key(base) != rules.fact_key(stored(text="use tea"))
    for field in ("owner", "project", "user", "agent", "session", "visibility"):
        other = {**base, "scope": {**base["scope"], field: "public"}}
        assert rules.fact_key(base) != rules.fact_key(other)


# --- revise and forget -------------------------------------------------------------------------------


def test_a_revision_names_what_it_replaces_and_not_the_whole_chain() -> None:
    first = {**stored(), "id": "urn:ump:aaaa"}
    second = {**rules.make_successor(first, {"relations": []}, now=NOW + 1), "id": "urn:ump:bbbb"}
    third = rules.make_successor(second, {"body": {"text": "3"}}, now=NOW + 2)
    assert third["supersedes"] == ["urn:ump:bbbb"]
    assert third["superseded_by"] == []
    assert third["id"] == ""
    assert third["provenance"] == PROVENANCE
    assert third["relations"] == []


def test_an_earlier_end_of_validity_stands_and_a_later_one_gives_way() -> None:
    early = {**stored(), "time": {**stored()["time"], "valid_to": "2026-06-01T00:00:00Z"}}
    late = {**stored(), "time": {**stored()["time"], "valid_to": "2030-01-01T00:00:00Z"}}
    assert rules.close(early, valid_to=NOW_TEXT, successor_id="urn:ump:b")["time"]["valid_to"] == "2026-06-01T00:00:00Z"
    assert rules.close(late, valid_to=NOW_TEXT, successor_id="urn:ump:b")["time"]["valid_to"] == NOW_TEXT


def test_forgetting_twice_is_forgetting_once() -> None:
    once = rules.tombstone(stored(), at=NOW_TEXT)
    assert rules.tombstone(once, at=format_instant(NOW + 9)) == once


def test_who_forgot_is_stamped() -> None:
    tombstoned = rules.tombstone({**stored(), "id": "urn:ump:aaaa"}, at=NOW_TEXT, actor=("did:key:zA", "agent"))
    assert tombstoned["provenance"] == {
        "actor": "did:key:zA",
        "actor_kind": "agent",
        "method": "forget",
        "source": {"ref": "urn:ump:aaaa"},
    }
    erased = rules.erase(full_record(), reason="gdpr", actor=("did:key:zA", "agent"))
    assert erased["provenance"] == {"actor": "did:key:zA", "actor_kind": "agent", "method": "forget"}


def test_erasure_keeps_no_content() -> None:
    source = full_record()
    source["scope"] |= {"user": "u", "session": "s"}
    erased = rules.erase(sign(source, KEY), reason="gdpr")
    assert erased["body"] == {"text": "[erased: gdpr]"}
    assert set(erased["scope"]) == {"owner", "project", "visibility"}
    assert set(erased["provenance"]) == {"actor", "actor_kind", "method"}
    assert erased["lifecycle"] == {"confidence": 0.82, "salience": 0.6, "status": "tombstoned"}
    assert erased["supersedes"] == source["supersedes"]
    assert not {"relations", "consent", "integrity"} & set(erased)
    assert record.check_complete(erased)


# --- consent -----------------------------------------------------------------------------------------


def redacting(*paths: str) -> Any:
    return rules.redact({**full_record(), "consent": {"redact": list(paths)}})[0]


@pytest.mark.parametrize(
    "path",
    [
        *("ump", "id", "kind", "scope.owner", "scope.visibility", "time.created", "consent", "consent.redact"),
        *("consent.redact.0", "provenance.actor_kind", "nowhere", "body.text.x", "relations.9", "relations.-1"),
    ],
)
def test_what_makes_it_a_record_stays(path: str) -> None:
    assert redacting(path) == {**full_record(), "consent": {"redact": [path]}}


def test_a_required_text_is_blanked() -> None:
    assert redacting("body.text")["body"]["text"] == "[redacted]"
    assert redacting("body")["body"] == {"text": "[redacted]"}
    assert redacting("provenance.actor")["provenance"]["actor"] == "[redacted]"
    assert redacting("relations.1.target")["relations"][1] == {"type": "about", "target": "[redacted]"}
    assert redacting("relations.0.target")["relations"][1] == {"type": "about", "target": "entity:pnpm"}


def test_a_required_object_loses_what_is_not_required() -> None:
    assert set(redacting("scope")["scope"]) == {"owner", "visibility"}
    assert redacting("time")["time"] == {"created": "2026-06-04T10:00:00Z"}
    for path in ("scope", "time", "body", "body.text", "provenance.source", "relations.0.target", "lifecycle"):
        assert find_problems(redacting(path)) == []


def test_redacting_twice_changes_nothing_more() -> None:
    once = redacting("body.text", "scope", "body.structured.nested.a.0", "relations")
    assert rules.redact(once) == (once, False)


PATHS = st.sampled_from(
    [
        "body",
        "body.text",
        "body.structured.nested.a.2",
        "scope.project",
        "provenance.evidence.0",
        "time.valid_to",
        "..",
        "",
    ]
)


@given(st.lists(PATHS | st.text(max_size=12)), JSON_VALUES)
def test_redaction_never_raises_and_never_touches_its_input(paths: list[str], junk: Any) -> None:
    source: Any = {**full_record(), "consent": {"redact": paths}}
    before = copy.deepcopy(source)
    redacted, changed = rules.redact(source)
    assert source == before
    assert changed is (redacted != source)
    rules.redact({**source, "consent": junk})
    rules.redact({**source, "consent": {"redact": junk}})
    rules.redact({"body": junk, "consent": {"redact": ["body.text", "body.0.a", *paths]}})


@given(JSON_OBJECTS, JSON_OBJECTS)
def test_a_union_holds_both_or_is_refused(left: Any, right: Any) -> None:
    existing = {**stored(), "body": {"text": "x", "structured": left}}
    merged = rules.merge(existing, draft(body={"text": "x", "structured": right}), now=NOW)
    if merged is not None:
        assert set(left) | set(right) == set(merged["body"].get("structured", {}))
        again = rules.merge(merged, draft(body={"text": "x", "structured": right}), now=NOW)
        assert again is not None
        assert again["body"] == merged["body"]
    else:
        assert set(left) & set(right)


@pytest.mark.parametrize("consent", [None, {}, {"retention": "soon"}, {"retention": 5}])
def test_without_a_readable_retention_nothing_expires(consent: Any) -> None:
    assert rules.retention_end({**full_record(), "consent": consent}) is None
