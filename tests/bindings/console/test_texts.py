"""Every word of the console stands in one file, and nowhere else."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from memoranda.bindings.console.texts import DEFAULT_LANGUAGE, Texts, load_languages, texts_for

FOLDER = files("memoranda.bindings.console")
TEMPLATES = {each.name: each.read_text("utf-8") for each in (FOLDER / "templates").iterdir()}
SOURCES = [each.read_text("utf-8") for each in FOLDER.iterdir() if each.name.endswith(".py")]
# Names of keys, of the product and of marks of CAL are the same in every language.
SAME = {"Memoranda", "Enter", "Esc", "Ctrl", "K", "j", "k", "a", "e", "r", "recall", "shared"}
READ_OUT = re.compile(r'(?:aria-label|placeholder|title|alt)="([^"{][^"]*)"')


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_no_template_has_words_of_its_own(name: str) -> None:
    text = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", " ", TEMPLATES[name], flags=re.DOTALL)
    said = READ_OUT.findall(text)
    text = re.sub(r"<[^>]*>", " ", text)
    words = set(re.findall(r"[A-Za-z]+", " ".join((text, *said))))
    assert words - SAME - {"doctype", "html"} == set()


def test_every_text_is_said_and_every_name_is_there() -> None:
    everywhere = "\n".join((*TEMPLATES.values(), *SOURCES))
    names = load_languages()[DEFAULT_LANGUAGE].names()
    said = set(re.findall(r"""["']([a-z_]+\.[a-z_-]+)["']""", everywhere))
    # Put together from a part and what it is about.
    begun = tuple(re.findall(r"""["']([a-z_]+\.[a-z_]*)["'] ~|f"([a-z_]+\.)\{""", everywhere))
    beginnings = tuple(each for pair in begun for each in pair if each)
    # The drawings take these from their page.
    for script, part in (("graph.js", "node."), ("timeline.js", "span.")):
        source = (FOLDER / "static" / script).read_text("utf-8")
        said |= {f"{part}{name}" for name in re.findall(r"'([a-z_]+)'", source)}
        said |= {f"{part}one_{kind}" for kind in ("person", "project", "thing", "org", "place", "topic")}
    assert {name for name in names if name not in said and not name.startswith(beginnings)} == set()
    asked = re.findall(r"""(?:\bt|text|rich|texts_of\(request\))\(["']([a-z_]+\.[a-z_-]*[a-z])["'][,)]""", everywhere)
    assert set(asked) - names == set()


def test_every_language_has_the_same_names() -> None:
    names = load_languages()[DEFAULT_LANGUAGE].names()
    assert {language: texts.names() ^ names for language, texts in load_languages().items()} == dict.fromkeys(
        load_languages(), frozenset()
    )


def test_every_language_inserts_the_same_values() -> None:
    english = load_languages()[DEFAULT_LANGUAGE]

    def values(texts: Texts, name: str) -> set[str]:
        entry = texts.forms(name)
        return set(re.findall(r"\{(\w+)\}", entry if isinstance(entry, str) else entry["other"]))

    for language, texts in load_languages().items():
        for name in english.names():
            assert values(texts, name) == values(english, name), (language, name)
            assert isinstance(texts.forms(name), str) == isinstance(english.forms(name), str), (language, name)


@pytest.mark.parametrize("accepted", ["de", "de-AT,de;q=0.9,en;q=0.8", "fr;q=0.9,de;q=0.5,en;q=0.1"])
def test_a_browser_in_german_gets_german(accepted: str) -> None:
    assert texts_for(accepted).language == "de"


@pytest.mark.parametrize("accepted", ["", "en", "en-GB,en;q=0.9", "xx,en;q=x", "q=;;,,", "zz" * 10_000])
def test_whatever_a_browser_asks_for_there_is_a_language(accepted: str) -> None:
    assert texts_for(accepted).language == DEFAULT_LANGUAGE


def test_what_is_put_in_stays_text() -> None:
    texts = Texts("xx", {"a": {"b": "`code` and {what}", "n": {"one": "1 thing", "other": "{n} things"}}})
    assert texts.rich("a.b", what="<b>{x}</b>") == "<code>code</code> and &lt;b&gt;{x}&lt;/b&gt;"
    assert (texts("a.n", n=1), texts("a.n", n=2)) == ("1 thing", "2 things")
