"""The site that `make docs` has built: every page is there, nothing comes from elsewhere, and nothing is missing."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tools.site import ALIASES, EXAMPLES, TABLES, named_types, python_verbs

import memoranda
from memoranda.aio import AsyncMemoranda
from memoranda.app import ListFilter, Memoranda, Where
from memoranda.bindings.http.app import all_operations
from memoranda.bindings.mcp.tools import OPERATIONS
from memoranda.errors import MemorandaError
from memoranda.service.core.verbs import Verb, Verbs

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "site"
SITE = BUILD / ".".join(memoranda.__version__.split(".")[:2])


def text_of(name: str) -> str:
    return (SITE / f"{name}.html").read_text(encoding="utf-8")


def test_every_page_is_built() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs")
        assert (SITE / name.with_suffix(".html")).is_file()


def test_the_versions_of_the_site_are_listed_and_the_newest_is_the_first_page() -> None:
    assert (BUILD / "versions.js").read_text(encoding="utf-8").startswith("window.siteVersions = [")
    assert f'"{SITE.name}"' in (BUILD / "versions.js").read_text(encoding="utf-8")
    assert "/index.html" in (BUILD / "index.html").read_text(encoding="utf-8")
    repository = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
    assert f'<a href="{repository}">' in text_of("index")


def test_nothing_is_loaded_from_elsewhere() -> None:
    loads = re.compile(r'<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)="?(?:https?:)?//[^">]*')
    styles = re.compile(r'(?:@import|url\()\s*["\']?(?:https?:)?//')
    for page in SITE.rglob("*.html"):
        assert not loads.findall(page.read_text(encoding="utf-8")), page
    for style in SITE.rglob("*.css"):
        assert not styles.findall(style.read_text(encoding="utf-8")), style


def is_table(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Verbs)


def is_verb(value: object) -> bool:
    return isinstance(value, Verb)


def section_of(page: str, anchor: str) -> str:
    """Return a page from the heading with this anchor to the next heading."""
    return page.partition(f'id="{anchor}"')[2].partition("<h")[0]


@pytest.mark.parametrize(("method", "keywords"), [("recall", Where), ("for_prompt", Where), ("list", ListFilter)])
def test_every_keyword_has_its_type_and_a_description(method: str, keywords: Any) -> None:
    section = section_of(text_of("reference/python"), f"memoranda.app.Memoranda.{method}")
    own = [name for name in inspect.signature(getattr(Memoranda, method)).parameters if name not in {"self", "where"}]
    described = re.findall(r"<b><code>(\w+)</code></b>\s*\(<code>.*?–\s*<div[^>]*>\s*<p>\w", section, re.DOTALL)
    assert described == [*own, *keywords.__annotations__]
    assert not re.search(r"default:\s*<code>\.\.\.", section)


def test_the_methods_with_an_event_loop_are_linked_to_those_without() -> None:
    page = text_of("reference/python")
    names = {name for name in vars(AsyncMemoranda) if not name.startswith("_")}
    shown = set(re.findall(r'id="memoranda\.aio\.AsyncMemoranda\.(\w+)"', page))
    linked = set(re.findall(r'href="#memoranda\.app\.Memoranda\.(\w+)"[^>]*><code>\1</code>', page))
    assert names - shown - linked == set()


def test_examples_are_code() -> None:
    library = text_of("reference/python")
    assert "&gt;&gt;&gt; </span>" in library
    assert "<blockquote>" not in library


@pytest.mark.parametrize("attribute", ["ump", "oams", "grains", "openwop", "cal"])
def test_every_verb_of_a_standard_has_its_call_and_a_sentence(attribute: str) -> None:
    page = python_verbs()
    table = {name: kind for name, kind, _ in TABLES}[attribute]
    prefix = f"m.{attribute}.verbs" if attribute == "oams" else f"m.{attribute}"
    verbs = {name for base in getattr(memoranda, table).__mro__ for name, value in vars(base).items() if is_verb(value)}
    assert len(verbs) > 3
    assert [name for name in verbs if not re.search(rf"\n{prefix}\.{name}\([^`]*```\n\n[A-Z]", page)] == []
    assert page.count(EXAMPLES[attribute].rstrip()) == 1


def test_every_type_of_a_keyword_is_explained() -> None:
    library = text_of("reference/python")
    for name in {*named_types(), *ALIASES}:
        assert f"<code>{name}</code></td>" in library or f'.{name}"' in library, name


def test_the_reference_has_everything_that_there_is() -> None:
    library, verbs = text_of("reference/python"), text_of("reference/python-verbs")
    names = [name for name in memoranda.__all__ if name != "__version__"]
    tables = [name for name in names if is_table(getattr(memoranda, name))]
    assert [name for name in names if name not in tables and f'.{name}"' not in library] == []
    assert tables == ["Cal", "Grains", "Oams", "Openwop", "Ump"]
    functions = {verb for name in tables for verb, value in vars(getattr(memoranda, name)).items() if is_verb(value)}
    assert [verb for verb in functions if f">{verb}<" not in verbs] == []
    routes, tools, errors = (text_of(f"reference/{name}") for name in ("http-operations", "mcp-tools", "errors"))
    assert [each.path for each in all_operations() if f"{each.method} {each.path}" not in routes] == []
    assert [each.plain_name for each in OPERATIONS.values() if each.plain_name not in tools] == []
    assert [
        kind.__name__
        for kind in MemorandaError.__subclasses__()
        if kind.__module__ == "memoranda.errors" and kind.__name__ not in errors
    ] == []
