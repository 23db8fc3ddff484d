"""OAMS memories in the neutral model, and memories of other standards as OAMS memories."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.standards.oams.strategies import INSTANTS, KEYS, NAMESPACES, TENANT, TEXTS, memories, memory

from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant, parse_instant
from memoranda.model.memory import KINDS, VISIBILITIES, Document, Projection, Relation, Scope
from memoranda.standards.oams.mapping import (
    derived_from,
    format_reference,
    from_projection,
    parse_reference,
    project,
    unwrap,
)
from memoranda.standards.oams.memory import MAX_VALUE_BYTES, check

ORIGINAL = Document(standard="ump", media_type="application/vnd.ump+json", name="urn:ump:abc", native=b"{ \x00 }")


def test_a_memory_is_read_without_its_words() -> None:
    value = memory(
        tags=["Tea", "tea", ""],
        metadata={
            "confidence": 0.9,
            "dream_inputs": [["user-x123ab:personal", "a"], {"namespace": "o:s", "key": "b"}, "c"],
        },
        parent_id="a",
        source_id="https://example.com/article",
        updated_at="2026-04-28T12:00:00Z",
    )
    created = parse_instant("2026-04-27T12:00:00Z")
    assert project(value, TENANT, "personal") == Projection(
        kind="semantic",
        text="Ada likes tea.",
        titles=("01HX", "tea"),
        scope=Scope(tenant=TENANT, space="personal"),
        created=created,
        observed=parse_instant("2026-04-28T12:00:00Z"),
        valid_from=created,
        confidence=0.9,
        tags=("tea",),
        relations=tuple(
            Relation(type="derived_from", target=target)
            for target in ("user-x123ab:personal/a", "o:s/b", "user-x123ab:personal/c")
        ),
        source="https://example.com/article",
        subject=TENANT,
    )


@given(memories())
def test_every_memory_can_be_read_and_says_something(value: Any) -> None:
    projection = project(value, TENANT, "s", user="u")
    assert projection.text == value["value"] or (projection.text == value["key"] and not value["value"])
    assert projection.source == (value.get("source_id") or "")
    assert projection.scope.user == projection.subject == "u"


@pytest.mark.parametrize("name", ["memoranda:kind", "memoranda:visibility", "memoranda:expires_at"])
@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, True])
def test_junk_in_our_own_metadata_changes_nothing(name: str, junk: object) -> None:
    assert project(memory(metadata={name: junk}), TENANT, "") == project(memory(), TENANT, "")


@pytest.mark.parametrize("name", ["memoranda:kind", "memoranda:visibility", "memoranda:expires_at"])
@pytest.mark.parametrize("junk", [7, "x", [], {}, True])
def test_junk_in_our_own_metadata_is_refused_when_it_comes(name: str, junk: object) -> None:
    with pytest.raises(InvalidInput, match=name):
        check(memory(metadata={name: junk}), complete=True)


@pytest.mark.requirement("OAMS-2-parent")
@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("01HX", ("o:s", "01HX")),
        ("user:personal/01HX", ("user:personal", "01HX")),
        ("user:personal/a/b", ("user:personal", "a/b")),
        ("a/b", ("o:s", "a/b")),
        ("user:a b/x", ("user:a b", "x")),
        ("us er:a/x", ("o:s", "us er:a/x")),
        ("https://example.com/x", ("o:s", "https://example.com/x")),
        ("user:personal/", ("o:s", "user:personal/")),
    ],
)
def test_a_parent_is_a_key_or_a_namespace_with_a_key(text: str, pair: tuple[str, str]) -> None:
    assert parse_reference(text, "o:s") == pair


@given(NAMESPACES, KEYS)
def test_a_reference_leads_to_its_pair(namespace: str, key: str) -> None:
    assert parse_reference(format_reference(namespace, key), "other:scope") == (namespace, key)


def test_a_consolidation_of_thousands_has_a_bounded_number_of_links() -> None:
    value = memory(metadata={"dream_inputs": [["o:s", str(number)] for number in range(5000)]})
    assert len(derived_from(value)) == 256


@pytest.mark.parametrize("junk", [7, "x", [7, [], ["a"], ["a", 7], {}, None, ["", ""]], {"a": "b"}])
def test_junk_among_the_inputs_links_nothing(junk: object) -> None:
    value = memory(metadata={"dream_inputs": junk})
    assert derived_from(value) == []


@st.composite
def projections(draw: st.DrawFn) -> Projection:
    moment = Instant(draw(INSTANTS))
    return Projection(
        kind=draw(st.sampled_from(KINDS)),
        text=draw(TEXTS),
        scope=Scope(tenant=TENANT, space=draw(TEXTS), visibility=draw(st.sampled_from(VISIBILITIES))),
        created=moment,
        observed=Instant(draw(INSTANTS)),
        valid_from=moment,
        expires=draw(st.none() | INSTANTS.map(Instant)),
        confidence=draw(st.none() | st.floats(0, 1)),
        tags=tuple(draw(st.lists(TEXTS, max_size=3))),
        relations=tuple(Relation(type="derived_from", target=t) for t in draw(st.lists(TEXTS, max_size=2))),
        source=draw(TEXTS),
    )


@given(projections(), NAMESPACES, st.binary(max_size=40), st.text(max_size=40))
def test_a_memory_of_another_standard_is_a_valid_memory_that_gives_the_original_back(
    projection: Projection, namespace: str, native: bytes, name: str
) -> None:
    original = replace(ORIGINAL, native=native, name=name)
    if not name.isascii() and name.encode("utf-8", "replace").decode() != name:
        original = ORIGINAL
    made = from_projection(projection, original, namespace=namespace)
    checked, warnings = check(made, complete=True)
    assert warnings == ()
    assert checked is made
    assert unwrap(made) == original
    assert from_projection(projection, original, namespace=namespace) == made
    seen = project(made, TENANT, projection.scope.space)
    assert (seen.kind, seen.scope, seen.expires) == (projection.kind, projection.scope, projection.expires)
    assert seen.confidence == projection.confidence


def test_a_foreign_memory_keeps_its_name_and_points_to_its_origin() -> None:
    projection = project(memory(), TENANT, "")
    made = from_projection(projection, ORIGINAL, namespace="o:s")
    assert (made["key"], made["source_id"], made["namespace"]) == ("urn:ump:abc", "urn:ump:abc", "o:s")
    long = from_projection(
        replace(projection, text="é" * MAX_VALUE_BYTES, source="s" * 10_000),
        replace(ORIGINAL, name="n" * 2000),
        namespace="o:s",
    )
    assert check(long, complete=True)[0]["key"].startswith("sha256:")


def test_what_is_no_foreign_view_has_no_original() -> None:
    assert unwrap(memory()) is None
    assert unwrap(memory(metadata={"memoranda:native": "x"})) is None
