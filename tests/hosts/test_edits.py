"""Configurations are edited as text: what they say changes by one entry, and everything else stays as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import InvalidInput, Unsupported
from memoranda.hosts.document import (
    ConfigFormat,
    EntrySlot,
    MarkedText,
    TomlTables,
    YamlBlocks,
    add_entry,
    remove_entry,
)
from memoranda.hosts.json_comments import JsonComments

JSON, TOML, YAML = JsonComments(), TomlTables(), YamlBlocks()
SLOT = EntrySlot(("servers",), "memoranda")
LISTED = EntrySlot(("servers",), "memoranda", is_listed=True)
VALUE = {"command": "/opt/mémo/bin/memoranda", "args": ["mcp", "--data", 'C:\\x "y"']}
OTHER = {"command": "elsewhere", "args": []}


@st.composite
def json_with_comments(draw: st.DrawFn) -> str:
    """A configuration with or without servers, written in some way."""
    keys = st.sampled_from(["a", "b", "servers", 'q"', "ü"])
    plain = st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "// no", "/* no */", "}", "ü\n"]),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=2),
        max_leaves=5,
    )
    document = draw(st.dictionaries(keys, plain, max_size=3))
    if draw(st.booleans()):
        document["servers"] = draw(st.dictionaries(st.sampled_from(["x", "y"]), plain, max_size=2))
    indent = draw(st.sampled_from([None, 1, 2, "\t"]))
    text = json.dumps(document, indent=indent, ensure_ascii=draw(st.booleans()))
    comment = draw(st.sampled_from(["", " // a comment", " /* another */"]))
    if indent is not None and comment:
        text = "\n".join(each + (comment if not each.rstrip().endswith('"ü') else "") for each in text.split("\n"))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))) + draw(st.sampled_from(["", "\n"]))


@given(text=json_with_comments())
def test_an_entry_of_json_is_put_replaced_and_taken_out(text: str) -> None:
    before = JSON.parse(text)
    if not isinstance(before.get("servers", {}), dict | None):
        with pytest.raises(InvalidInput):
            add_entry(JSON, text, SLOT, VALUE)
        return
    with_it = add_entry(JSON, text, SLOT, VALUE)
    assert JSON.parse(with_it) == {**before, "servers": {**(before.get("servers") or {}), "memoranda": VALUE}}
    assert add_entry(JSON, with_it, SLOT, VALUE) == with_it
    changed = add_entry(JSON, with_it, SLOT, OTHER)
    assert add_entry(JSON, changed, SLOT, VALUE) == with_it
    without = remove_entry(JSON, with_it, SLOT)
    assert JSON.parse(without) == {**before, "servers": before.get("servers") or {}}
    if before.get("servers"):
        assert without == text
    for each in ("// a comment", "/* another */"):
        assert without.count(each) == with_it.count(each) == text.count(each)


@pytest.mark.parametrize(
    ("form", "slot", "text", "left"),
    [
        (
            *(JSON, SLOT),
            '{\n  "servers": {\n    "x": 1,\n    "memoranda": {}, // mine\n    "y": 2,\n  },\n}\n',
            '{\n  "servers": {\n    "x": 1, // mine\n    "y": 2,\n  },\n}\n',
        ),
        (JSON, SLOT, '{"servers": {"memoranda": {"a": [1, {}]}, "y": 2}}', '{"servers": { "y": 2}}'),
        (JSON, SLOT, '{"servers": {"x": 1, "memoranda": {} }, "z": null}', '{"servers": {"x": 1 }, "z": null}'),
        (
            *(TOML, SLOT),
            "[servers.memoranda]\na = 1\n[servers.memoranda.env]\nb = 2\n\n# about x\n[x]\ny = '''\n[z]\n'''\n",
            "\n# about x\n[x]\ny = '''\n[z]\n'''\n",
        ),
        (TOML, SLOT, 'a = 1\n\n[ servers . "memoranda" ]\na = [\n  "x",\n]\n# the end\n', "a = 1\n# the end\n"),
        (
            *(YAML, SLOT),
            "servers:\n    memoranda:\n        a: 1\n\n        b: |\n          text\n    # y\n    y: 2\nz: 3\n",
            "servers:\n    # y\n    y: 2\nz: 3\n",
        ),
        (
            *(YAML, LISTED),
            "servers:\n- name: x\n- command: c\n  name: memoranda\n  args:\n  - a\n- name: y\nz: 3\n",
            "servers:\n- name: x\n- name: y\nz: 3\n",
        ),
        (YAML, LISTED, "servers:\r\n  - name: memoranda\r\nz: 3\r\n", "servers: []\r\nz: 3\r\n"),
    ],
)
def test_an_entry_that_a_person_wrote_is_taken_out_and_nothing_else(
    form: ConfigFormat, slot: EntrySlot, text: str, left: str
) -> None:
    assert remove_entry(form, text, slot) == left
    before: Any = form.parse(text)
    value = {"name": "memoranda", **VALUE}
    assert form.parse(add_entry(form, text, slot, value)) == slot.with_entry(before, value)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("servers: {}\nz: 3\n", "servers: {}\nz: 3\n"),
        ("servers:  # mine\nz: 3\n", "servers: {}\nz: 3\n"),
        ("servers: null\n", "servers: {}\n"),
        ("z: 3", "z: 3\nservers: {}\n"),
        ("", "servers: {}\n"),
    ],
)
def test_yaml_with_no_servers_yet_gets_the_first(text: str, left: str) -> None:
    with_it = add_entry(YAML, text, SLOT, VALUE)
    assert YAML.parse(with_it)["servers"] == {"memoranda": VALUE}
    assert remove_entry(YAML, with_it, SLOT) == left


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (JSON, '{"servers": {"x": 1}'),
        (JSON, '{"servers": {}} extra'),
        (JSON, "{'servers': {}}"),
        (JSON, '{"servers": [1]}'),
        (JSON, '{"servers": {}, "servers": {}}'),
        (JSON, "[]"),
        (JSON, "[" * 5_000),
        (JSON, "/* " * 5_000),
        (TOML, "[servers\n"),
        (TOML, "servers = 3\n"),
        (TOML, "servers = { x = { command = 'a' } }\n"),
        (YAML, "servers: {x: {command: a}}\n"),
        (YAML, "servers: [1\n"),
        (YAML, "a: 1\n---\nservers: {}\n"),
        (YAML, '"servers":\n  x: 1\n'),
    ],
)
def test_what_is_broken_or_cannot_be_edited_safely_is_refused(form: ConfigFormat, text: str) -> None:
    with pytest.raises((InvalidInput, Unsupported)):
        add_entry(form, text, SLOT, VALUE)


def test_a_broken_file_is_named_with_its_line() -> None:
    with pytest.raises(InvalidInput, match="line 3, column 3"):
        JSON.parse('{\n  "a": 1\n  "b": 2\n}')


@pytest.mark.parametrize("text", ["", "# Mine\n\nBe brief.\n", "# Mine\r\nBe brief.", "a\n\n\n"])
def test_a_passage_between_marks_is_put_replaced_and_taken_out(text: str) -> None:
    form, slot = MarkedText(), EntrySlot((), "memoranda")
    with_it = add_entry(form, text, slot, {"text": "Remember.\nAnd recall."})
    assert with_it.startswith(text)
    assert add_entry(form, with_it, slot, {"text": "Remember.\nAnd recall."}) == with_it
    assert "Otherwise." in add_entry(form, with_it, slot, {"text": "Otherwise."})
    assert remove_entry(form, with_it + "later\n", slot).split() == [*text.split(), "later"]
