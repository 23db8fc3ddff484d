"""How a memory of another standard looks as a grain: the same whether its fields are plain or have to be checked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memoranda.model.instant import Instant
from memoranda.model.memory import KINDS, VISIBILITIES, Document, Projection, Scope
from memoranda.standards.oms import mapping
from memoranda.standards.oms.grains import decode, encode

texts = st.text(st.sampled_from("ab :é\u0301\ufeff-"), max_size=6)
named = st.just("") | texts.map(lambda text: text + "x")
tags = st.sampled_from(["plain", "é", "pii:email", "profile:legal", "reg:gdpr", "identity", ""])
shares = st.none() | st.sampled_from([0, 1, 0.0, 0.5, 1.0])
moments = st.integers(0, 4_000_000_000_000).map(Instant)


@st.composite
def projections(draw: st.DrawFn) -> Projection:
    created = draw(moments)
    return Projection(
        kind=draw(st.sampled_from(KINDS)),
        text=draw(texts) + "x",
        scope=Scope(
            tenant="did:key:ada",
            space=draw(texts),
            user=draw(texts),
            session=draw(texts),
            visibility=draw(st.sampled_from(VISIBILITIES)),
        ),
        created=created,
        observed=draw(moments),
        valid_from=created,
        valid_to=draw(st.none() | moments),
        confidence=draw(shares),
        salience=draw(shares),
        tags=tuple(draw(st.lists(tags, max_size=3, unique=True))),
        actor=draw(texts),
        subject=draw(named),
    )


@given(projections(), texts)
def test_a_view_is_the_grain_of_its_fields_and_reads_back(projection: Projection, name: str) -> None:
    original = Document(standard="ump", media_type="application/json", name=f"n{name}", native=b"{}")
    view = mapping.from_projection(projection, original)
    assert encode(view.fields, profile=mapping.VIEWS) == view
    assert decode(view.blob, profile=mapping.VIEWS) == view


@pytest.mark.parametrize("field", ["user", "subject"])
def test_a_name_of_nothing_but_byte_order_marks_is_no_name_in_a_view(field: str) -> None:
    scope = Scope(tenant="did:key:ada", user="\ufeff" if field == "user" else "")
    at = Instant(0)
    read = Projection(kind="semantic", text="x", scope=scope, created=at, observed=at, valid_from=at)
    if field != "user":
        read = replace(read, **{field: "\ufeff"})
    original = Document(standard="ump", media_type="application/ump+json", name="n", native=b"{}")
    assert mapping.from_projection(read, original).fields["subject"] == "did:key:ada"
