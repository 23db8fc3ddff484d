"""The texts of the pages, one file per language, and how moments and differences are written in them.

The browser's Accept-Language header chooses the language. Error messages of the service are not among the texts: every
interface shows them in the same words. Nothing here is markup, except in `Texts.rich`; templates escape the rest.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Set
from functools import cache
from typing import Final, NamedTuple

from memoranda.bindings.console.resources import resource_folder
from memoranda.errors import Unsupported
from memoranda.model.instant import Instant, format_instant, parse_instant

try:
    from markupsafe import Markup, escape
except ModuleNotFoundError as error:
    raise Unsupported(
        f"a server and its console need {error.name}: pip install 'memoranda[server]'"
    ) from error

DEFAULT_LANGUAGE: Final = "en"


class Texts:
    """The texts of one language, by names such as `memories.search`."""

    def __init__(
        self, language: str, entries: Mapping[str, Mapping[str, str | Mapping[str, str]]]
    ) -> None:
        self.language = language
        self._entries = {
            f"{part}.{name}": text
            for part, texts in entries.items()
            for name, text in texts.items()
        }

    def __call__(self, name: str, /, **values: object) -> str:
        """Return a text with values inserted. If it has two forms, the value `n` chooses one."""
        entry = self._entries[name]
        if not isinstance(entry, str):
            entry = entry["one" if values["n"] == 1 else "other"]
        return entry.format_map(values) if values else entry

    def rich(self, name: str, /, **values: object) -> Markup:
        """Return a text as HTML, with code elements for parts between backticks."""
        parts = self(name, **values).split("`")
        # Odd parts stood between backticks.
        marked = (
            f"<code>{escape(part)}</code>" if number % 2 else escape(part)
            for number, part in enumerate(parts)
        )
        return Markup("").join(Markup(part) for part in marked)  # noqa: S704 - every part is escaped above

    def forms(self, name: str) -> str | Mapping[str, str]:
        """Return a text as its file has it, for scripts that insert the values."""
        return self._entries[name]

    def names_of(self, part: str) -> list[str]:
        """Return the names within a part, such as "node."; without the part."""
        return [name.removeprefix(part) for name in self._entries if name.startswith(part)]

    def names(self) -> Set[str]:
        """Return the names of all texts."""
        return self._entries.keys()


@cache
def load_languages() -> Mapping[str, Texts]:
    """Return the texts of each language, by its code."""
    languages = {}
    for file in (resource_folder() / "texts").iterdir():
        if file.name.endswith(".toml"):
            language = file.name.removesuffix(".toml")
            languages[language] = Texts(language, tomllib.loads(file.read_text("utf-8")))
    return languages


def texts_for(accepted: str) -> Texts:
    """Return the texts of the language that an Accept-Language header prefers; English if it names none of ours."""
    languages = load_languages()
    preferences: list[tuple[float, int, str]] = []
    # Characters: longer headers are cut, because no browser sends them.
    for order, part in enumerate(accepted[:1_000].split(",")):
        name, _, weight = part.strip().partition(";q=")
        try:
            preferences.append((-float(weight or 1), order, name.partition("-")[0].lower()))
        except ValueError:
            continue
    codes = (code for _, _, code in sorted(preferences) if code in languages)
    return languages[next(codes, DEFAULT_LANGUAGE)]


# --- moments and differences --------------------------------------------------------------------------------

# The units of an age, each with its number in the next unit.
_UNITS: Final = (
    (60, "second"),
    (60, "minute"),
    (24, "hour"),
    (30, "day"),
    (12, "month"),
)
_WORD: Final = re.compile(r"\s+|[^\s]+")
# Words; longer texts are compared by lines, because the time grows with the square of the number of words.
_COMPARED_WORDS: Final = 2_000
# Characters of a date such as 2026-05-31.
_DAY_CHARS: Final = 10


class TextChange(NamedTuple):
    """A part of a text that is unchanged (""), new, or gone."""

    text: str
    change: str


def format_age(moment: str | Instant, now: Instant, text: Texts) -> str:
    """Return the age of a moment in its largest unit, such as "3 days ago" or "in 2 hours"."""
    then = parse_instant(moment) if isinstance(moment, str) else moment
    seconds = (now - then) // 1_000
    is_past, amount = seconds >= 0, abs(seconds)
    if amount < 1:
        return text("time.now")
    unit = "year"
    for size, name in _UNITS:
        unit = name
        if amount < size:
            break
        amount //= size
    else:
        unit = "year"
    return text("time.ago" if is_past else "time.ahead", time=text(f"time.{unit}", n=amount))


def format_day(moment: str | Instant) -> str:
    """Return the day of a moment, in the form of a date field."""
    return format_iso(moment)[:_DAY_CHARS]


def format_iso(moment: str | Instant) -> str:
    """Return a moment in ISO 8601. A script shows it in the reader's time zone."""
    if isinstance(moment, str):
        return moment
    return format_instant(moment)


def compare_texts(before: str, after: str) -> list[TextChange]:
    """Return the differences between two texts, word by word."""
    is_long = len(before) + len(after) > 8 * _COMPARED_WORDS
    old_words, new_words = (
        text.splitlines(keepends=True) if is_long else _WORD.findall(text)
        for text in (before, after)
    )
    return list(_changes(old_words, new_words))


def _changes(old_words: list[str], new_words: list[str]) -> Iterator[TextChange]:
    """Yield the parts that two sequences share or do not share, in order."""
    matcher = difflib.SequenceMatcher(None, old_words, new_words, autojunk=False)
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            yield TextChange("".join(old_words[old_start:old_end]), "")
            continue
        if old_end > old_start:
            yield TextChange("".join(old_words[old_start:old_end]), "gone")
        if new_end > new_start:
            yield TextChange("".join(new_words[new_start:new_end]), "new")
