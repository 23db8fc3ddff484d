"""Every regular expression of the tree takes time in proportion to the text, whatever the text is.

One that goes back over what it has read takes the square of it: a memory of 200,000 spaces then stops the server.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import memoranda
from memoranda.app import Memoranda
from memoranda.cli import main
from memoranda.consolidation.text.sentences import SENTENCE_CHARS_LIMIT
from memoranda.standards.openwop.entry import Draft
from tests.processor import at_most

# The square of it is seconds, and in proportion to it a millisecond or so.
CHARS = 6_000
SECONDS = 0.25
# Whatever else this process has to do meanwhile (collecting what earlier tests left, say) is done by then.
ATTEMPTS = 4
REPEATED = (
    *(" ", "\n", "\r\n", "a", "A", "aA", "a ", "1", "1 ", "1.", "1:", "é", "漢", "-", "_", "/", ".", ",", "a, ", "a-"),
    *("a/", "a@", "'", '"', "`", "(", "](", "{", "<", "<a ", "*", "\\", "%", "=", "?", "\u200b"),
    *("I will ", "every day ", "at 3 ", "my x is y ", "and ", "eyJ", "-----BEGIN ", "password ", "http://a."),
)


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(memoranda.__path__, "memoranda."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    yield from (module for name, module in sorted(sys.modules.items()) if name.startswith("memoranda"))


def patterns_in(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    """Those in a value of a module: itself, or what it is made of."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth > 4 or isinstance(value, ModuleType | str | bytes):
        return
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from patterns_in(each, depth + 1)
    elif isinstance(value, tuple | list | set | frozenset):
        for each in value:
            yield from patterns_in(each, depth + 1)
    elif (value.__module__ if isinstance(value, type) else type(value).__module__).startswith("memoranda"):
        slots = [name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())]
        for name in (*getattr(value, "__dict__", {}), *slots):
            yield from patterns_in(getattr(value, name, None), depth + 1)


def all_patterns() -> dict[str, re.Pattern[Any]]:
    found: dict[re.Pattern[Any], str] = {}
    for module in modules():
        for name, value in list(vars(module).items()):
            for pattern in patterns_in(value):
                found.setdefault(pattern, f"{module.__name__}.{name} {pattern.pattern!r}"[:160])
    return {place: pattern for pattern, place in found.items()}


PATTERNS = all_patterns()
# Read one sentence at a time, which has at most so many characters.
SENTENCES = {
    "memoranda.consolidation.commitments.commitments._JOINTS": SENTENCE_CHARS_LIMIT,
    "memoranda.consolidation.commitments.intents.TAIL": SENTENCE_CHARS_LIMIT,
}
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in Path(memoranda.__path__[0]).rglob("*.py"))


def uses(name: str) -> list[str]:
    """How a pattern is used: anywhere in a text, or only at its start."""
    if re.search(rf"(?:check_pattern\([^\n]*|_match\()\b{re.escape(name)}\b", SOURCE):
        return ["match", "fullmatch"]
    found = set(re.findall(rf"\b{re.escape(name)}\.(search|finditer|findall|split|subn?|match|fullmatch)\b", SOURCE))
    if found and found <= {"match", "fullmatch"}:
        return sorted(found)
    return ["finditer"]


def is_quick(pattern: re.Pattern[Any], ways: list[str], texts: list[Any]) -> bool:
    try:
        with at_most(SECONDS):
            for text in texts:
                for way in ways:
                    found = getattr(pattern, way)(text)
                    if way == "finditer":
                        list(found)
    except AssertionError:
        return False
    return True


def test_the_patterns_are_found() -> None:
    assert len(PATTERNS) > 150


@pytest.mark.parametrize("place", PATTERNS)
def test_a_pattern_takes_time_in_proportion_to_the_text(place: str) -> None:
    pattern = PATTERNS[place]
    name = place.split()[0]
    ways = uses(name.rpartition(".")[2])
    for unit in REPEATED:
        run: Any = unit * (SENTENCES.get(name, CHARS) // len(unit)) + "\x00"
        texts = [run.encode() if isinstance(pattern.pattern, bytes) else run]
        if not any(is_quick(pattern, ways, texts) for _ in range(ATTEMPTS)):
            pytest.fail(f"{unit!r} again and again takes too long")


@pytest.mark.parametrize("spaces", [" " * 200_000, "\n" * 200_000, " \n" * 100_000])
def test_a_memory_of_spaces_is_listed(
    spaces: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path / "home"))
    with Memoranda.open(tmp_path / "home") as opened:
        opened.openwop.put_entry("notes", Draft(content=f"tea{spaces}green"))
    with at_most(20):
        assert main(["openwop", "list", "notes"]) == 0
    assert "tea" in capsys.readouterr().out
