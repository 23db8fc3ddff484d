"""*.ump.md: the published bytes, lossless round trips, YAML headers, and what is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.standards.ump.published import JSON_OBJECTS, KEY, VECTORS, full_record

from memoranda.encoding.json_text import canonical
from memoranda.errors import InvalidInput
from memoranda.standards.ump import markdown
from memoranda.standards.ump.front_matter import MAX_YAML_CHARS, parse_yaml
from memoranda.standards.ump.signature import sign, verify

PLAIN: Any = {
    "ump": "0.1",
    "id": "urn:ump:aaaa",
    "kind": "procedural",
    "body": {"text": "Always run `pnpm gate` before handoff."},
    "scope": {"owner": KEY.did, "visibility": "private"},
    "time": {"created": "2026-06-04T10:00:00Z"},
}
TEXTS = st.text(alphabet=st.characters(codec="utf-8"), max_size=40) | st.text(
    alphabet="a-\r\n\t \u00a0\u2028\ufeff{}#", max_size=14
)


def with_text(text: str) -> Any:
    return {**PLAIN, "body": {"text": text}}


@pytest.mark.requirement("UMP-4.3-markdown-files")
def test_rendering_is_byte_for_byte_the_vectors() -> None:
    assert markdown.render(sign(full_record(), KEY)) == VECTORS["markdown"]["with_structured"]
    assert markdown.render(PLAIN) == VECTORS["markdown"]["plain"]


@pytest.mark.requirement("UMP-6.3-lossless")
def test_the_vectors_read_back_and_still_verify() -> None:
    signed = markdown.parse(VECTORS["markdown"]["with_structured"])
    assert signed == sign(full_record(), KEY)
    assert verify(signed)
    assert markdown.parse(VECTORS["markdown"]["plain"]) == PLAIN


@pytest.mark.parametrize("edge", VECTORS["markdown_edge"], ids=lambda edge: ascii(edge["in"]))
def test_texts_that_the_reference_loses_are_kept(edge: Any) -> None:
    rendered = markdown.render(with_text(edge["in"]))
    assert (markdown.EDGES in rendered) is not edge["lossless"]
    assert markdown.parse(rendered)["body"]["text"] == edge["in"]


@given(TEXTS.filter(bool))
@example("\r\n\r\n---\r\nx\r")
@example("a\rb\nc\r\nd")
@example(" \n ")
@settings(max_examples=400)
@pytest.mark.requirement("UMP-6.3-lossless")
def test_any_text_survives(text: str) -> None:
    assert markdown.parse(markdown.render(with_text(text))) == with_text(text)


@given(TEXTS.filter(bool))
@example("a\r\nb\nc")
@example("a\r\r\nb\r\rc")
@settings(max_examples=400)
def test_any_text_survives_git_s_line_end_conversion(text: str) -> None:
    rendered = markdown.render(with_text(text))
    as_checked_out = rendered.replace("\r\n", "\n").replace("\n", "\r\n")
    as_committed = rendered.replace("\r\n", "\n")
    assert markdown.parse(as_checked_out) == with_text(text)
    assert markdown.parse(as_committed) == with_text(text)


@given(JSON_OBJECTS, TEXTS.filter(bool))
@pytest.mark.requirement("UMP-6.3-lossless")
def test_any_structured_value_survives(structured: Any, text: str) -> None:
    record: Any = {**full_record(), "body": {"text": text, "structured": structured}}
    read = markdown.parse(markdown.render(record))
    assert canonical(read) == canonical(record)
    assert list(read) == list(record)


def test_a_byte_order_mark_is_stripped_once() -> None:
    assert markdown.parse("\ufeff" + markdown.render(PLAIN)) == PLAIN


def test_an_edit_of_the_visible_text_wins() -> None:
    rendered = markdown.render(with_text("\n\nold\r\nlines  "))
    edited = rendered.replace("old", "new\nand more")
    assert markdown.parse(edited)["body"]["text"] == "\n\nnew\r\nand more\r\nlines  "
    mixed = markdown.render(with_text("one\r\ntwo\nthree")).replace("two", "two\nand a half")
    assert markdown.parse(mixed)["body"]["text"] == "one\ntwo\nand a half\nthree"


def test_a_hint_cannot_smuggle_in_words() -> None:
    rendered = markdown.render(with_text("\nvisible"))
    smuggled = rendered.replace('"before": "\\n"', '"before": "hidden\\n"')
    assert smuggled != rendered
    assert markdown.parse(smuggled)["body"]["text"] == "visible"
    odd = rendered.replace('{\n    "before": "\\n",\n    "after": ""\n  }', "7")
    assert markdown.parse(odd)["body"]["text"] == "visible"


SPEC_EXAMPLE = """\
---
ump: "0.1"
id: urn:ump:9f2c
kind: procedural
scope: { owner: did:key:z6Mk, project: example/recall, visibility: private }
time: { observed: 2026-06-04T09:58:00Z, valid_from: 2026-06-04T00:00:00Z }
provenance: { actor_kind: user, method: user_correction }
---
Always run `pnpm gate` before handoff.
"""


@pytest.mark.requirement("UMP-4.3-markdown-files")
def test_the_specification_s_own_yaml_example_is_read() -> None:
    assert markdown.parse(SPEC_EXAMPLE) == {
        "ump": "0.1",
        "id": "urn:ump:9f2c",
        "kind": "procedural",
        "body": {"text": "Always run `pnpm gate` before handoff."},
        "scope": {"owner": "did:key:z6Mk", "project": "example/recall", "visibility": "private"},
        "time": {"observed": "2026-06-04T09:58:00Z", "valid_from": "2026-06-04T00:00:00Z"},
        "provenance": {"actor_kind": "user", "method": "user_correction"},
    }


def test_yaml_values_are_read_by_what_the_field_holds() -> None:
    source = """\
---
ump: 0.1
kind: semantic
scope: {owner: o, project: 010, agent: NO, session: 1.10, user: true}
time: {created: 2026-06-04T10:00:00Z, valid_to: ~}
lifecycle: {confidence: 0.5, salience: 1, status: active}
consent: {exportable: false, redact: [body.text]}
provenance:
  actor: 'o'
  evidence:
    - {ref: 12, weight: 1}
body:
  structured:
    n: 10
    f: -1.5e3
    yes_word: yes
    flag: true
    nothing:
    zero_led: 010
    quoted: "10"
    list: [1, a, null]
    when: 2026-06-04
---

text
"""
    read = markdown.parse(source)
    assert read["ump"] == "0.1"
    assert read["scope"] == {"owner": "o", "project": "010", "agent": "NO", "session": "1.10", "user": "true"}
    assert read["time"] == {"created": "2026-06-04T10:00:00Z", "valid_to": None}
    assert read["lifecycle"] == {"confidence": 0.5, "salience": 1, "status": "active"}
    assert read["consent"] == {"exportable": False, "redact": ["body.text"]}
    assert read["provenance"]["evidence"] == [{"ref": "12", "weight": 1}]
    assert read["body"]["text"] == "text"
    assert read["body"]["structured"] == {
        "n": 10,
        "f": -1500.0,
        "yes_word": "yes",
        "flag": True,
        "nothing": None,
        "zero_led": "010",
        "quoted": "10",
        "list": [1, "a", None],
        "when": "2026-06-04",
    }


def test_a_flow_mapping_that_is_not_json_is_read_as_yaml() -> None:
    assert markdown.parse("---\n{kind: semantic, ump: 1.0}\n---\nx")["ump"] == "1.0"


def test_a_text_in_the_header_counts_only_where_none_is_visible() -> None:
    assert markdown.parse("---\nbody: {text: header}\n---\n")["body"] == {"text": "header"}
    assert markdown.parse("---\nbody: {text: header}\n---\nbelow")["body"] == {"text": "below"}


@pytest.mark.parametrize(
    "source",
    [
        "",
        "no front matter",
        "---\nkind: x",
        "----\nkind: x\n---\n",
        "---\n---\n",
        "---\n[1]\n---\n",
        "---\njust text\n---\n",
        '---\n{"a":1,"a":2}\n---\nx',
        "---\na: 1\na: 2\n---\nx",
        "---\na: &x [1]\nb: *x\n---\n",
        "---\na: &x 1\n---\n",
        "---\na: *x\n---\n",
        "---\na: !!python/object:os.system x\n---\n",
        "---\na: !!str x\n---\n",
        "---\n? [1]\n: 2\n---\n",
        "---\na: [\n---\n",
        "---\na: 'x\n---\n",
        '---\na: "\\ud800"\n---\n',
        '---\na: "\\UFFFFFFFF"\n---\n',
        "---\na: \x01\n---\n",
        "---\na: 1\n...\nb: 2\n---\n",
        "---\nbody: 5\n---\nx",
        "---\nbody: {structured: {n: 1e999}}\n---\nx",
        "---\na: " + "[" * 100 + "]" * 100 + "\n---\n",
        "---\na: " + "x" * MAX_YAML_CHARS + "\n---\n",
        "---\n" + "x" * 2_000_000,
    ],
    ids=lambda source: ascii(source[:30]),
)
def test_what_is_not_a_header_is_refused(source: str) -> None:
    with pytest.raises(InvalidInput):
        markdown.parse(source)


@given(st.text(alphabet="ab:-[]{},&*!|>'\"%@`#?\\ \n\tu0x~", max_size=40) | st.text(max_size=30))
@settings(max_examples=400)
def test_any_header_is_read_or_refused(source: str) -> None:
    with suppress(InvalidInput):
        parse_yaml(source)
    with suppress(InvalidInput):
        markdown.parse(f"---\n{source}\n---\ntext")
