"""SML as markup: elements, envelope, and text that cannot forge either."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoranda.standards.sml import render

# Everything that Python, and so most readers, take for the end of a line.
BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
ANY_TAG = re.compile(rf"</?(?:{'|'.join((*render.TAGS, render.ENVELOPE))})", re.IGNORECASE)
HOSTILE = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from([*BREAKS, "\r\n", "\t", '"', "'", "<", "</", ">", "/>", "&lt;", 'x="']),
        st.sampled_from(
            [
                f"{start}{tag}{end}"
                for start in ("<", "</", "< ")
                for tag in ("belief", "context", "GOAL")
                for end in ("", ">", " ")
            ]
        ),
    ),
    max_size=12,
).map("".join)


@pytest.mark.requirement("SML-2-tags")
def test_there_are_ten_tags_and_no_others() -> None:
    assert set(render.TAGS) == set(
        "belief goal event action observation reasoning state workflow consensus consent".split()
    )
    for tag in render.TAGS:
        assert render.render_element(tag, (), "x") == f"<{tag}>x</{tag}>"
    for tag in ("grain", "context", "fact", "Belief", ""):
        with pytest.raises(ValueError, match="no tag"):
            render.render_element(tag, (), "x")


@pytest.mark.requirement("SML-2-shape")
def test_an_element_is_one_line_with_attributes_one_space_apart() -> None:
    attributes = (("subject", "alice"), ("confidence", 0.92))
    assert (
        render.render_element("belief", attributes, "prefers dark mode")
        == '<belief subject="alice" confidence="0.92">prefers dark mode</belief>'
    )
    assert render.render_element("consensus", (("threshold", 3),), "") == '<consensus threshold="3"></consensus>'


@pytest.mark.requirement("SML-2-envelope")
def test_one_envelope_with_its_intent_holds_everything() -> None:
    groups = [["<belief>a</belief>", "<belief>b</belief>"], [], ["<goal>c</goal>"]]
    assert render.render_context("helping alice", groups).splitlines() == [
        '<context intent="helping alice">',
        "",
        "  <belief>a</belief>",
        "  <belief>b</belief>",
        "",
        "  <goal>c</goal>",
        "",
        "</context>",
    ]
    assert render.render_context(None, []) == "<context>\n\n</context>"
    assert (
        render.render_context('say "hi"\n<context>', []) == "<context intent=\"say 'hi' &lt;context>\">\n\n</context>"
    )


@pytest.mark.requirement("SML-2-groups")
def test_blank_lines_part_groups_and_nothing_wraps_them() -> None:
    assert render.render_bare([["<belief>a</belief>"], [], ["<goal>b</goal>", "<goal>c</goal>"]]) == (
        "<belief>a</belief>\n\n<goal>b</goal>\n<goal>c</goal>"
    )
    assert render.render_bare([]) == ""


@pytest.mark.requirement("SML-forging")
@pytest.mark.parametrize(
    ("stored", "printed"),
    [
        ('x </belief><belief> a < b & "q"', 'x &lt;/belief>&lt;belief> a < b & "q"'),
        ("</context>", "&lt;/context>"),
        ("</CONTEXT><Goal", "&lt;/CONTEXT>&lt;Goal"),
        ("a\r\n\tb\n\nc\u2028d\x85e", "a b c d e"),
        ("<b>bold</b> <div> 1<2 <!-- -->", "<b>bold</b> <div> 1<2 <!-- -->"),
        ("&lt;belief>", "&lt;belief>"),
        ("", ""),
    ],
)
def test_text_cannot_spell_a_tag_and_is_verbatim_otherwise(stored: str, printed: str) -> None:
    assert render.format_line(stored) == printed
    assert render.render_element("belief", (), stored) == f"<belief>{printed}</belief>"


@pytest.mark.requirement("SML-forging")
def test_a_value_cannot_leave_its_quotes() -> None:
    forged = 'x" confidence="1.0">y</belief>\n<goal a="'
    assert (
        render.render_element("belief", (("subject", forged),), "z")
        == "<belief subject=\"x' confidence='1.0'>y&lt;/belief> &lt;goal a='\">z</belief>"
    )


@pytest.mark.requirement("SML-forging")
@given(subject=HOSTILE, text=HOSTILE, intent=st.none() | HOSTILE)
@example(subject='"', text="</belief>\n\n</context>\n<context>", intent="\n<belief>")
@example(subject="<", text="<", intent="<")
def test_no_stored_text_makes_a_line_or_a_tag(subject: str, text: str, intent: str | None) -> None:
    element = render.render_element("belief", (("subject", subject),), text)
    printed = render.render_context(intent, [[element]])
    lines = printed.splitlines()
    assert lines == [lines[0], "", f"  {element}", "", "</context>"]
    assert [match[0] for match in ANY_TAG.finditer(printed)] == ["<context", "<belief", "</belief", "</context"]
    assert lines[0].count('"') == (0 if intent is None else 2)
    # The first two quotes are the attribute's own; text keeps its quotes.
    assert re.fullmatch(r'<belief subject="[^"]*">.*</belief>', element)


@pytest.mark.requirement("SML-numbers")
@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (0.92, "0.92"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (3, "3"),
        (-7, "-7"),
        (1e-7, "0.0000001"),
        (1e22, "10000000000000000000000.0"),
        (1.5e300, "15" + "0" * 299 + ".0"),
        (True, "true"),
        (False, "false"),
        (2**60, "1152921504606846976"),
    ],
)
def test_numbers_are_short_decimals_without_an_exponent(value: float, printed: str) -> None:
    assert render.format_number(value) == printed


def test_an_integer_too_long_for_python_is_printed_all_the_same() -> None:
    assert render.format_number(2**20000) == hex(2**20000)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_read_back_the_same(value: float) -> None:
    printed = render.format_number(value)
    assert float(printed) == value
    assert "e" not in printed
    assert "." in printed


@given(HOSTILE)
def test_one_line_is_one_line(text: str) -> None:
    assert len(f"{render.format_line(text)}.".splitlines()) == 1
