"""The Markdown serialization: for people, and without loss."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.standards.oams.strategies import HOSTILE, TEXTS, memories, memory

from memoranda.standards.oams import markdown
from memoranda.standards.oams.lines import Line
from memoranda.standards.oams.markdown import code_span, render_one

FULL = memory(
    tags=["research", "memory"],
    source_id="https://example.com/article",
    value="The actual `value` text goes here as Markdown body.",
)
# Section 7, with the key written out.
EXAMPLE = """\
## key: 01HX

**namespace:** `user-x123ab:personal`
**created:** 2026-04-27T12:00:00Z
**updated:** 2026-04-27T12:00:00Z
**source:** https://example.com/article
**tags:** `research`, `memory`

The actual `value` text goes here as Markdown body.

---
"""


def read(text: str) -> list[Line]:
    return list(markdown.read_memories(io.BytesIO(text.encode("utf-8"))))


def only(text: str) -> Any:
    (line,) = read(text)
    assert line.error is None
    assert line.memory is not None
    return line.memory


@pytest.mark.requirement("OAMS-7-markdown")
def test_the_example_of_the_specification_is_written_and_read() -> None:
    assert "".join(map(render_one, [FULL])) == EXAMPLE + "\n"
    assert only(EXAMPLE) == FULL


@pytest.mark.requirement("OAMS-7-markdown")
@given(st.lists(memories(), max_size=4))
def test_every_memory_comes_back(values: list[Any]) -> None:
    found = read("".join(map(render_one, values)))
    assert [each.memory for each in found] == values


@given(TEXTS)
@example("")
@example("\n")
@example("---")
@example("\n\n---\n\n")
@example("a\n---")
@example("---\r")
@example("## key: x\n\n**namespace:** `a:b`\n")
@example("\\---")
@example("\r\n")
@example("x  \n\t\n")
def test_every_value_comes_back(value: str) -> None:
    both = [memory(value=value), memory(key="next", value=value)]
    assert [each.memory for each in read("".join(map(render_one, both)))] == both


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_comes_back_from_every_place(text: str) -> None:
    for hostile in (text, f"a{text}b", f"{text}b", f"a{text}", text * 2):
        value = memory(value=hostile, tags=[hostile, "x"], source_id=hostile, metadata={hostile: [hostile]})
        assert only("".join(map(render_one, [value]))) == value


def test_nothing_a_person_reads_is_hidden_and_nothing_hidden_is_empty() -> None:
    text = "".join(map(render_one, [memory(metadata={"confidence": 0.9, "note": "a --> b"}, value="---")]))
    assert '<!-- oams: {"metadata":{"confidence":0.9,"note":"a -\\u002d\\u003e b"}} -->' in text
    assert "\n\\---\n" in text
    assert "<!--" not in EXAMPLE


def test_a_large_value_comes_back() -> None:
    value = memory(value="---\n" * 200_000)
    assert only("".join(map(render_one, [value]))) == value


# --- files of others ---------------------------------------------------------------------------------


def test_a_file_with_windows_line_ends_is_read_as_if_it_had_ours() -> None:
    assert only(EXAMPLE.replace("\n", "\r\n")) == FULL


def test_text_before_the_first_section_and_a_missing_end_do_not_matter() -> None:
    assert only("\ufeff# My memories\n\nThese are mine.\n\n" + EXAMPLE.removesuffix("\n---\n")) == FULL


def test_a_rule_in_the_text_of_another_vendor_is_no_end() -> None:
    text = EXAMPLE.replace("The actual", "Above\n\n---\n\nThe actual")
    assert only(text)["value"] == "Above\n\n---\n\n" + FULL["value"]


def test_fields_may_be_spread_and_unquoted() -> None:
    text = EXAMPLE.replace("`user-x123ab:personal`", "user-x123ab:personal").replace(
        "## key: 01HX\n\n", "## key: 01HX\n"
    )
    assert only(text) == FULL


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (EXAMPLE.replace("**namespace:** `user-x123ab:personal`\n", ""), "namespace is required"),
        (EXAMPLE.replace("`user-x123ab:personal`", "`x:`"), "namespace must"),
        (EXAMPLE.replace("**tags:**", "<!-- oams: { -->\n**tags:**"), "not JSON"),
        (EXAMPLE.replace("**tags:**", "<!-- oams: [] -->\n**tags:**"), "must contain an object"),
        (EXAMPLE.replace("**tags:**", '<!-- oams: {"value":"x"} -->\n**tags:**'), "other than value"),
        (EXAMPLE.replace("**tags:**", "<!-- oams: {} -->\n<!-- oams: {} -->\n**tags:**"), "one comment"),
        ("## key: \n", "is required"),
    ],
)
def test_a_bad_section_is_named_by_its_line_and_the_next_is_read(text: str, reason: str) -> None:
    bad, good = read(text + "\n" + EXAMPLE)
    assert bad.error is not None
    assert bad.error.message.startswith("line 1: ")
    assert reason in bad.error.message
    assert good.memory == FULL
    assert good.number == text.count("\n") + 2


def test_what_is_not_utf8_or_too_large_is_refused_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    data = EXAMPLE.encode().replace(b"actual", b"\xff\xfe") + EXAMPLE.encode()
    found = list(markdown.read_memories(io.BytesIO(data)))
    assert [each.error is None for each in found] == [False, True]
    monkeypatch.setattr(markdown, "MAX_SECTION_BYTES", 1000)
    large = EXAMPLE.encode().replace(b"actual", b"x" * 3000) + EXAMPLE.encode()
    found = list(markdown.read_memories(io.BytesIO(large)))
    assert [each.error is None for each in found] == [False, True]


@given(st.binary(max_size=200) | TEXTS.map(lambda text: ("## key: " + text).encode()))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for line in markdown.read_memories(io.BytesIO(data)):
        assert (line.memory is None) == (line.error is not None)


@pytest.mark.parametrize(
    ("text", "span"),
    [("a", "`a`"), ("a`b", "``a`b``"), ("`", "`` ` ``"), (" ", "` `"), (" a ", "`  a  `"), ("``", "``` `` ```")],
)
def test_code_spans_are_those_of_commonmark(text: str, span: str) -> None:
    assert code_span(text) == span
