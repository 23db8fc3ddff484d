"""Strings of a question that memories must contain literally: codes, numbers, identifiers, paths, addresses.

"ORD-123456", "555-0134", "parse_instant", "src/app.py", "v2.3.1" and "ada@example.org" are exact; "e-bike", "and/or",
"20 mg" and "3.5" are ordinary words and quantities.
"""

from __future__ import annotations

import re
from typing import Final

# Strings of a question that are looked for, and characters of each.
_STRINGS_LIMIT: Final = 8
_CHARS_LIMIT: Final = 200
# A string, freed of spaces and punctuation around it. Marks inside belong to it.
_CHUNK: Final = re.compile(r"[^\s\"“”„«»<>()\[\]{},;!?，。、；！？「」『』…]+")
_EDGE: Final = ".:'’‘*#"
_POSSESSIVE: Final = re.compile(r"['’]s$")
_EMAIL: Final = re.compile(r"[^@]+@[^@.]+(?:\.[^@.]+)+")
# Quantities, ordinals and times of day: 20mg, 1st, 8:30, 10am, 1,150.
_QUANTITY: Final = re.compile(
    r"[+-]?\d+(?:[.,:]\d+)*(?:[a-z]{1,3}|km/h|%)?|\d+-\d{1,2}|\d+(?:[.:]\d+)?-\d+[a-z]{1,2}",
    re.IGNORECASE,
)
_LONG_NUMBER: Final = re.compile(r"\d{5,}")
_GROUPED_NUMBER: Final = re.compile(r"\d+(?:[./:-]\d+){2,}|\d{2,}-\d{3,}")
_MIXED_CODE: Final = re.compile(r"(?=.*\d)(?=.*[^\W\d_])[\w.+:/#-]+", re.DOTALL)
_IDENTIFIER: Final = re.compile(
    # snake_case, parseInstant, name::space, dotted.name, a-b-c, a path with a slash at its start, twice, or a suffix.
    r"(?=.*_)_*[^\W_]+(?:_+[^\W_]+)*_*|[a-z]{2,}(?:[A-Z][a-z0-9]+)+|\w+(?:::\w+)+|[^\W\d_]\w+(?:\.[^\W\d_]\w+)+"
    r"|(?:\w{2,}-){2,}\w{2,}|[~.]{0,2}/\S*\w\S*|\w:\\\S+|[\w.@-]+(?:/[\w.@-]+){2,}|[\w.@-]+/[\w@-]+\.\w{1,5}"
    r"|\w+://\S+"
)
# Words of ordinary compounds with two hyphens: "state-of-the-art", "mother-in-law".
_COMPOUND: Final = re.compile(r"-(?:of|in|the|to|a|and|by|on|at|for|up|out|de|du|la|le)-")


def find_exact_strings(question: str) -> tuple[str, ...]:
    """Return the strings of a question that are codes, numbers, identifiers, paths or addresses, each once.

    At most _STRINGS_LIMIT strings, because each is looked up in the index and then in texts.
    """
    strings: dict[str, None] = {}
    for match in _CHUNK.finditer(question):
        string = _POSSESSIVE.sub("", match[0].strip(_EDGE)).strip(_EDGE)
        if 3 <= len(string) <= _CHARS_LIMIT and _is_exact(string):
            strings[string] = None
    return tuple(strings)[:_STRINGS_LIMIT]


def _is_exact(string: str) -> bool:
    """Return True for a code, a number of an object, an identifier, a path or an address."""
    if _LONG_NUMBER.fullmatch(string) or _GROUPED_NUMBER.fullmatch(string):
        return True
    if _QUANTITY.fullmatch(string) or _COMPOUND.search(string):
        return False
    matches = (
        _EMAIL.fullmatch(string),
        _MIXED_CODE.fullmatch(string),
        _IDENTIFIER.fullmatch(string),
    )
    return any(matches)
