"""Templates: where their text ends, how it is trimmed, and what it may hold."""

from __future__ import annotations

import pytest
from tests.standards.cal.verdicts import code_of

from memoranda.standards.cal.language import template
from memoranda.standards.cal.language.canonical import canonical
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.language.syntax import DefineTemplate


def element(body: str) -> str | None:
    statement = parse(f"DEFINE TEMPLATE t ELEMENT {{{body}}}").statement
    assert isinstance(statement, DefineTemplate)
    return statement.sections.element


@pytest.mark.requirement("CAL-10.6-trimming")
@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("x", "x"),
        (" x ", "x"),
        ("  x  ", " x "),
        (" ", ""),
        ("", ""),
        ("\n  x\n  ", "  x"),
        ("\r\n  x\r\n  ", "  x"),
        ("\n\n  ", ""),
        ("\n  ", ""),
        ("\n\n\n", "\n"),
        (" a\n b ", " a\n b "),
        (" { } ", "{ }"),
        ("{{grain.content}}", "{{grain.content}}"),
        (' " -- ', '" --'),
    ],
)
def test_text_is_trimmed_by_one_line_break_or_one_space(body: str, text: str) -> None:
    assert element(body) == text
    assert template.trim_section(template.wrap_in_braces(text)[1:-1]) == text


@pytest.mark.requirement("CAL-10.6-templates")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("{{grain.content}} {{ grain.type }} {{! a comment }}", None),
        ("{{#grain.confidence}}a{{/grain.confidence}}{{^grain.is_full}}b{{/grain.is_full}}", None),
        ("{{grain.is_full}}", "CAL-E090"),
        ("{{nonsense}}", "CAL-E090"),
        ("{{grain.namespace}}", "CAL-E090"),
        ("{{#nonsense}}{{/nonsense}}", "CAL-E090"),
        ("{{#grain.type}}", "CAL-E091"),
        ("{{/grain.type}}", "CAL-E091"),
        ("{{#grain.type}}{{#grain.tags}}{{/grain.type}}{{/grain.tags}}", "CAL-E091"),
        ("{{{grain.content}}}", "CAL-E094"),
        ("{{&grain.content}}", "CAL-E094"),
        ("{{>partial}}", "CAL-E094"),
        ("{{=<% %>=}}", "CAL-E094"),
        ("{{}}", "CAL-E094"),
        ("{{grain content}}", "CAL-E094"),
        ("{{grain.content", "CAL-E094"),
        ("{{#each}}x{{/each}}", "CAL-E094"),
        ("{{#grain.type}}" * 5 + "{{/grain.type}}" * 5, None),
        ("{{#grain.type}}" * 6 + "{{/grain.type}}" * 6, "CAL-E093"),
    ],
)
def test_a_section_has_its_verdict(body: str, code: str | None) -> None:
    assert code_of(f"DEFINE TEMPLATE t ELEMENT {{ {body} }}") == code
    assert code_of(f"ASSEMBLE FROM (RECALL) FORMAT TEMPLATE {{ ELEMENT {{ {body} }} }}") == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("DEFINE TEMPLATE t HEADER { {{#each}}{{grain.content}}{{/each}} }", None),
        ("DEFINE TEMPLATE t FOOTER { {{^each}}x{{/each}} }", "CAL-E094"),
        ("DEFINE TEMPLATE t ELEMENT { x } ELEMENT { y }", "CAL-E095"),
        ("DEFINE TEMPLATE t ELEMENT_SUMMARY { x }", "CAL-E096"),
        ("DEFINE TEMPLATE t EXTENDS readable HEADER { x } ELEMENT_OMIT { x }", "CAL-E096"),
        ("DEFINE TEMPLATE t ELEMENT_SUMMARY { x } ELEMENT { x }", None),
        ("DEFINE TEMPLATE t ELEMENT { x", "CAL-E091"),
        ("DEFINE TEMPLATE t ELEMENT { x }}", "CAL-E091"),
        ("DEFINE TEMPLATE t ELEMENT { { x }", "CAL-E091"),
        ("DEFINE TEMPLATE t ELEMENT x", "CAL-E002"),
        ("DEFINE TEMPLATE t", "CAL-E002"),
        ("DEFINE TEMPLATE t BODY { x }", "CAL-E002"),
        ("DEFINE TEMPLATE element ELEMENT { x }", "CAL-E002"),
        ("DEFINE TEMPLATE Sml ELEMENT { x }", "CAL-E088"),
        ("DEFINE TEMPLATE compact ELEMENT { x }", "CAL-E088"),
        ("DEFINE TEMPLATE t EXTENDS Structured ELEMENT { x }", None),
        ("DEFINE TEMPLATE t EXTENDS data ELEMENT { x }", "CAL-E086"),
        ("DEFINE TEMPLATE t EXTENDS sml ELEMENT { x }", "CAL-E087"),
        ("DEFINE TEMPLATE t EXTENDS other ELEMENT { x }", "CAL-E087"),
        ("DEFINE TEMPLATE t ELEMENT { x } LIMIT 5", "CAL-E002"),
        ("ASSEMBLE FROM (RECALL) FORMAT TEMPLATE { ELEMENT { x } } BUDGET 5 grains", None),
        ("ASSEMBLE FROM (RECALL) FORMAT TEMPLATE { ELEMENT { x }", "CAL-E002"),
    ],
)
def test_a_definition_has_its_verdict(text: str, code: str | None) -> None:
    assert code_of(text) == code


def test_sections_are_spelled_in_the_printed_order() -> None:
    text = "DEFINE TEMPLATE t FOOTER { z } ELEMENT {\nx\ny\n} HEADER {a}"
    assert canonical(parse(text)) == "CAL/1 DEFINE TEMPLATE t HEADER { a } ELEMENT {\nx\ny\n} FOOTER { z }"
