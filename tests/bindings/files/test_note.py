"""A note is taken apart and put together again; a change leaves every other byte as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.bindings.files.note import Links, Note, links_in
from memoranda.errors import InvalidInput

CHANGES = [
    ("text\n", "---\ntitle: T\ntags: [a]\n---\ntext\n"),
    ("\ufefftext", "\ufeff---\ntitle: T\ntags: [a]\n---\ntext"),
    ("---\n# c\n---\ntext\n", "---\n# c\ntitle: T\ntags: [a]\n---\ntext\n"),
    ("---\r\nx: 1 # c\r\n---\r\ntext\r\n", "---\r\nx: 1 # c\r\ntitle: T\r\ntags: [a]\r\n---\r\ntext\r\n"),
    ("---\ntags: [b, a] # c\ntitle: S # d\n---\ntext", "---\ntags: [a] # c\ntitle: T # d\n---\ntext"),
    ("---\ntags: [b,]\ntitle: S\n---\ntext", "---\ntags: [a]\ntitle: T\n---\ntext"),
    ("---\ntags:\n  - b\n  - a # c\n\nx: 1\n---\ntext", "---\ntags:\n  - a # c\n\nx: 1\ntitle: T\n---\ntext"),
    ("---\ntags:\n- '#a'\nx: 1\n---\ntext", "---\ntags:\n- '#a'\nx: 1\ntitle: T\n---\ntext"),
    ("---\ntags: b c # d\n---\ntext", "---\ntags: [a] # d\ntitle: T\n---\ntext"),
    ("---\ntag: # none\n---\ntext", "---\ntag: [a] # none\ntitle: T\n---\ntext"),
    ("---\ntitle: |\n  long\n  one\nx: 1\n---\ntext", "---\ntitle: T\nx: 1\ntags: [a]\n---\ntext"),
    ("---\n{x: 1}\n---\ntext", "---\n{x: 1, title: T, tags: [a]}\n---\ntext"),
    ("---\n  x: &y [1]\n  z: *y\n---\ntext", "---\n  x: &y [1]\n  z: *y\n  title: T\n  tags: [a]\n---\ntext"),
    ("---\na ruler\n---\ntext", "---\ntitle: T\ntags: [a]\n---\n---\na ruler\n---\ntext"),
    (f"---\ntags: [{', '.join('bcdefghijkl')}, a]\n---\ntext", "---\ntags: [a]\ntitle: T\n---\ntext"),
    ("---\ntags:\n- b\n- a\n- c\n# d\n---\ntext", "---\ntags:\n- a\n# d\ntitle: T\n---\ntext"),
    # Not YAML, or not to be understood: left alone.
    ("---\nx: y: z\n---\ntext", "---\nx: y: z\n---\ntext"),
    ("---\nt: &t [b]\ntags: *t\n---\ntext", "---\nt: &t [b]\ntags: *t\n---\ntext"),
]


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_only_our_properties_change(before: str, after: str) -> None:
    note = Note.parse(before.encode())
    assert note.data() == before.encode()
    changed = note.with_changes(title="T", tags=["a"])
    assert changed.data().decode() == after
    read = Note.parse(changed.data())
    assert read.text == note.text
    assert note.problem or (read.title, read.tags) == ("T", ("a",))


@pytest.mark.parametrize("before", [before for before, _ in CHANGES])
def test_another_text_leaves_the_properties_and_the_end_of_the_file(before: str) -> None:
    note = Note.parse(before.encode())
    changed = note.with_changes(text="one\ntwo").data().decode()
    assert changed.replace("\r\n", "\n") == before.replace("\r\n", "\n").replace(note.text, "one\ntwo")
    assert ("\r\n" in before) == ("one\r\ntwo" in changed)


def test_a_text_that_looks_like_properties_is_written_so_that_it_is_none() -> None:
    changed = Note.parse(b"old\n").with_changes(text="---\na: 1\n---\nnew")
    assert Note.parse(changed.data()).text == "---\na: 1\n---\nnew"


@given(st.binary(max_size=200) | st.text(alphabet="-#:[]{}'\"ab \r\n&*!|>?,~`", max_size=80).map(lambda s: s.encode()))
def test_whatever_stands_in_a_file_is_kept_or_refused(data: bytes) -> None:
    for source in (data, b"---\n" + data + b"\n---\ntext\n"):
        try:
            note = Note.parse(source)
        except InvalidInput:
            continue
        assert note.data() == source
        try:
            changed = note.with_changes(text="new text", title="a: b", tags=["x", "1"])
        except InvalidInput:
            continue
        read = Note.parse(changed.data())
        assert read.text == "new text"
        assert note.problem or (read.title == "a: b" and set(read.tags or ()) >= {"x", "1"})


def test_a_bomb_of_aliases_is_a_few_lines() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(24)
    )
    note = Note.parse(f"---\n{bomb}tags: [q]\n---\ntext\n".encode())
    assert (note.tags, note.text, note.problem) == (("q",), "text", "")


@pytest.mark.parametrize("front", ["x: " + "[" * 5_000, "x: " + "y" * 70_000, "tags: a\ntags: b", "a: 1\n...\n---x"])
def test_properties_that_are_not_understood_do_not_hide_the_text(front: str) -> None:
    note = Note.parse(f"---\n{front}\n---\ntext\n".encode())
    assert note.text == "text"
    assert note.problem.startswith("properties")


def test_tags_and_links_are_read_from_prose_and_not_from_code() -> None:
    source = (
        "---\ntags: [front]\nup: '[[Up]]'\n---\n# Heading\n#one (#two/three) no#four #5 #6th [[A b#part|c]]\n"
        "![[d.png]]\n"
        "`#code [[code]]`\n~~~\n#block [[block]]\n~~~\n[x](../y%20z.md#h) [w](https://w.example/#v)\n"
    )
    assert Note.parse(source.encode()).tags == ("front", "one", "two/three", "6th")
    assert list(links_in(source)) == [(False, "Up"), (False, "A b"), (False, "d.png"), (True, "../y z.md")]


def test_a_link_means_the_nearest_note_of_that_name() -> None:
    links = Links(["a/b/N.md", "a/N.md", "x/M.md", "Top.md"])
    targets = [
        (False, "n"),
        (False, "b/N"),
        (False, "a/b/n.md"),
        (True, "../a/N.md"),
        (False, "Nowhere"),
        (False, "Top"),
    ]
    assert [links.resolve("x/M.md", [each]) for each in targets] == [
        ["a/N.md"], ["a/b/N.md"], ["a/b/N.md"], ["a/N.md"], [], ["Top.md"]
    ]  # fmt: skip
