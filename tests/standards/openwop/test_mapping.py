"""Entries to and from the neutral model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standards.openwop.strategies import ids, instants, tags, texts

from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant
from memoranda.model.memory import Projection, Relation, Scope
from memoranda.standards.openwop.entry import MAX_CONTENT_BYTES, build_entry, check_entry
from memoranda.standards.openwop.mapping import MEDIA_TYPE, STANDARD, decode, encode, from_projection, project


def projection(**changes: object) -> Projection:
    fields: dict[str, object] = {
        "kind": "semantic",
        "text": "Prefers email.",
        "scope": Scope(tenant="alice", space="support"),
        "created": Instant(1000),
        "observed": Instant(2000),
        "valid_from": Instant(1000),
        **changes,
    }
    return Projection(**fields)  # type: ignore[arg-type]


def test_an_entry_is_read_without_openwops_words() -> None:
    made = build_entry(
        id="mem_1",
        content="Prefers email.",
        tags=["preference", "source:session", "compacted-from:run_7", "derived-from:mem_0"],
        created=Instant(1000),
        expires=Instant(5000),
    )
    seen = project(made, "alice", "support")
    assert (seen.text, seen.scope.tenant, seen.scope.space) == ("Prefers email.", "alice", "support")
    assert (seen.created, seen.observed, seen.valid_from, seen.expires) == (1000, 1000, 1000, 5000)
    assert seen.tags == ("preference", "source:session", "compacted-from:run_7", "derived-from:mem_0")
    assert seen.source == "session"
    assert seen.relations == (Relation(type="derived_from", target="mem_0"),)
    assert seen.sameness == ""


def test_an_entry_without_content_still_says_something_to_other_standards() -> None:
    assert project(build_entry(id="mem_1", content="", created=Instant(0)), "a", "").text == "mem_1"


@given(ids, texts, tags, instants, st.none() | instants)
def test_there_and_back_keeps_what_an_entry_says(
    name: str, content: str, tag_list: list[str], created: Instant, expires: Instant | None
) -> None:
    made = build_entry(id=name, content=content, tags=tag_list, created=created, expires=expires)
    back = from_projection(project(made, "alice", "s"), name)
    assert back == {**made, "content": content or name, "tags": list(dict.fromkeys(made["tags"]))}


@pytest.mark.requirement("WOP-1.1-source-tag")
def test_a_memory_of_another_standard_names_where_it_came_from() -> None:
    seen = projection(
        tags=("a", "a", "x" * 300),
        source="chat://1",
        relations=(Relation(type="derived_from", target="urn:ump:x"), Relation(type="about", target="y")),
        expires=Instant(9000),
    )
    made = from_projection(seen, "urn:ump:1")
    assert made["tags"] == ["a", "x" * 256, "source:chat://1", "derived-from:urn:ump:x"]
    assert (made["id"], made["createdAt"]) == ("urn:ump:1", "1970-01-01T00:00:01.000Z")
    assert made["expiresAt"] == "1970-01-01T00:00:09.000Z"


@given(
    st.text(max_size=30),
    st.text(max_size=30),
    st.lists(st.text(max_size=20), max_size=5),
    st.text(max_size=20),
    st.text(max_size=20),
)
def test_whatever_another_standard_says_makes_a_valid_entry(
    name: str, text: str, tag_list: list[str], source: str, target: str
) -> None:
    seen = projection(
        text=text, tags=tuple(tag_list), source=source, relations=(Relation(type="derived_from", target=target),)
    )
    assert check_entry(from_projection(seen, name))


def test_a_name_that_is_no_id_is_called_by_its_digest() -> None:
    for name in ("", "a\nb", "x" * 1501, "\ud800"):
        assert from_projection(projection(), name)["id"].startswith("sha256:")


def test_a_text_that_is_too_long_for_an_entry_is_cut_between_characters() -> None:
    content = from_projection(projection(text="é" * MAX_CONTENT_BYTES), "m")["content"]
    assert len(content.encode()) == MAX_CONTENT_BYTES
    assert set(content) == {"é"}


@given(ids, texts, tags, instants)
def test_a_native_document_reads_back(name: str, content: str, tag_list: list[str], created: Instant) -> None:
    made = build_entry(id=name, content=content, tags=tag_list, created=created)
    assert decode(encode(made)) == made
    assert encode(decode(encode(made))) == encode(made)
    assert (STANDARD, MEDIA_TYPE) == ("openwop", "application/vnd.openwop.memory-entry+json")


@pytest.mark.parametrize("native", [b"", b"[]", b"{}", b"\xff", b'{"id":1}'])
def test_what_is_no_native_document_is_refused(native: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode(native)
