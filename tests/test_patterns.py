"""Every regular expression of the tree takes time in proportion to the text, whatever the text is.

One that goes back over what it has read takes the square of it: a memory of 200,000 spaces then stops the server.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import memoranda
from memoranda.app import Memoranda
from memoranda.cli import main
from memoranda.consolidation.learning.rules import SENTENCE_CHARS_LIMIT as LEARNED_CHARS_LIMIT
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
        if found.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(found.name)
        except ImportError:
            # An adapter of a framework that is not installed here: it has no patterns of its own.
            place = importlib.util.find_spec(found.name)
            source = "" if place is None or place.origin is None else Path(place.origin).read_text("utf-8")
            if not found.name.startswith("memoranda.adapters.") or "import re\n" in source:
                raise
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


# Read one sentence at a time, which has at most so many characters.
SENTENCES = {
    "memoranda.consolidation.learning.cues.CUES": LEARNED_CHARS_LIMIT,
    "memoranda.consolidation.learning.cues.PASSING": LEARNED_CHARS_LIMIT,
    "memoranda.consolidation.learning.cues.PLANTING": LEARNED_CHARS_LIMIT,
    "memoranda.consolidation.commitments.commitments._JOINTS": SENTENCE_CHARS_LIMIT,
    "memoranda.consolidation.commitments.intents.TAIL": SENTENCE_CHARS_LIMIT,
}
_USE = re.compile(r"\b(\w+)\.(search|finditer|findall|split|subn?|match|fullmatch)\b")
_CHECKED = re.compile(r"(?:check_pattern\(|_match\()[^\n]*")


def all_uses() -> dict[str, list[str]]:
    """How patterns are used that are not looked for anywhere in a text, but only at its start; read once."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    checked: set[str] = set()
    for path in Path(memoranda.__path__[0]).rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        for name, way in _USE.findall(source):
            found[name].add(way)
        for call in _CHECKED.findall(source):
            checked.update(_given(call))
    starts = {name: sorted(ways) for name, ways in found.items() if ways <= {"match", "fullmatch"}}
    return {**starts, **{name: ["match", "fullmatch"] for name in checked}}


def _given(call: str) -> list[str]:
    """The names that a call which checks a text by a pattern is given on its line; `_match` has it first."""
    names = re.findall(r"\w+", call.partition("(")[2])
    return names if call.startswith("check_pattern") else names[:1]


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


def is_proportional(pattern: re.Pattern[Any], ways: list[str], unit: str, chars: int) -> bool:
    run: Any = unit * (chars // len(unit)) + "\x00"
    texts = [run.encode() if isinstance(pattern.pattern, bytes) else run]
    return any(is_quick(pattern, ways, texts) for _ in range(ATTEMPTS))


def test_a_pattern_takes_time_in_proportion_to_the_text() -> None:
    patterns, used = all_patterns(), all_uses()
    assert len(patterns) > 150
    slow = [
        f"{place}: {unit!r} again and again"
        for place, pattern in patterns.items()
        for unit in REPEATED
        if not is_proportional(
            pattern,
            used.get(place.split()[0].rpartition(".")[2], ["finditer"]),
            unit,
            SENTENCES.get(place.split()[0], CHARS),
        )
    ]
    assert slow == []


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
