"""Text to sentences: deterministic, in any script, one list item or line or sentence each.

Markdown is read as text: markers of lists, headings and quotations are dropped, fences are skipped, and nothing in it
has any effect. A line that goes on in lower case continues the one before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from memoranda.consolidation.text.note import clean

# A longer piece is not a sentence; it is cut between words, so that budgets can be met.
SENTENCE_CHARS_LIMIT: Final = 600
# A text of more sentences is a book; what follows is not read.
SENTENCES_LIMIT: Final = 2_000

_MARKERS = re.compile(r"(?:(?:[-*+•‣◦·–—]|>+|#{1,6}|\d{1,3}[.)]|\[[ xX]\])\s+|>+)+")
_FENCE = re.compile(r"(?:```|~~~)")
# An ASCII full stop ends a sentence only before a space; the ends of scripts without spaces stand alone.
_END = re.compile(
    r"""[.!?…]{1,8}["'”’»)\]]{0,4}(?=\s)|[。！？｡؟۔।॥։።။។៕‼⁇⁈⁉]{1,8}["'”’»」』）)\]]{0,4}"""
)
_ABBREVIATIONS: Final = frozenset(
    "dr mr mrs ms prof st vs etc e.g i.e eg ie cf no nos vol p pp fig approx dept inc ltd co corp jr sr ca z.b bzw usw "
    "u.a d.h nr str evtl ggf bspw sog mme mlle sra av jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
_LAST_WORD = re.compile(r"([^\s(\[\"'“‘]{1,12})\Z")
_CODE = re.compile(r"""[{}\\]|</|/>|=>|->|::|&&|\|\||\(\)|^[|$"'<]|[|;,\\]$|^\S+\(|"\s?:|<\w+""")
_TERMINAL: Final = tuple(".!?…。！？｡؟۔।॥։።။។៕:：;；")


def sentences(text: str) -> list[str]:
    """The sentences of a text, in order, each on one line; pieces without a letter or digit are left out."""
    found: list[str] = []
    for block in _blocks(clean(text)):
        for sentence in _split(block):
            found.extend(piece for piece in _pieces(sentence) if any(map(str.isalnum, piece)))
            if len(found) >= SENTENCES_LIMIT:
                return found[:SENTENCES_LIMIT]
    return found


def as_text(statements: Sequence[str]) -> str:
    """Statements as one text: a single one as it is, several as a list, which reads back as the same statements."""
    if len(statements) == 1:
        return statements[0]
    return "\n".join(f"- {statement}" for statement in statements)


def is_code(sentence: str) -> bool:
    """Whether a line is a piece of a program, of data or of a table rather than of language."""
    return _CODE.search(sentence) is not None


def _blocks(text: str) -> Iterator[str]:
    """Lines without their markers; a line that goes on with the sentence before it is joined to it."""
    pending = ""
    for raw in text.split("\n"):
        line = " ".join(raw.split())
        if not line or _FENCE.match(line):
            if pending:
                yield pending
            pending = ""
            continue
        marker = _MARKERS.match(line)
        body = line[marker.end() :] if marker else line
        if pending and marker is None and body[0].islower() and not pending.endswith(_TERMINAL):
            pending += " " + body
        else:
            if pending:
                yield pending
            pending = body
    if pending:
        yield pending


def _split(line: str) -> Iterator[str]:
    start = 0
    for match in _END.finditer(line):
        if match[0][0] in ".!?…" and not _ends(line, match):
            continue
        sentence = line[start : match.end()].strip()
        if sentence:
            yield sentence
        start = match.end()
    rest = line[start:].strip()
    if rest:
        yield rest


def _ends(line: str, match: re.Match[str]) -> bool:
    follows = line[match.end() + 1 : match.end() + 2]
    if not follows or follows.islower():
        return False
    if match[0] != ".":
        return True
    word = _LAST_WORD.search(line, max(0, match.start() - 12), match.start())
    if word is None:
        return True
    before = word[1].lower()
    # "J. Smith", "Dr. Who", "e.g. Rust" go on; so does the number of a list item in running text.
    is_initial = len(before) == 1 and before.isalpha() and word[1].isupper()
    return not (
        is_initial
        or before in _ABBREVIATIONS
        or (before.isdecimal() and match.start() <= len(before))
    )


def _pieces(sentence: str) -> Iterator[str]:
    start = 0
    while len(sentence) - start > SENTENCE_CHARS_LIMIT:
        space = sentence.rfind(" ", start + SENTENCE_CHARS_LIMIT // 2, start + SENTENCE_CHARS_LIMIT)
        cut = space if space > 0 else start + SENTENCE_CHARS_LIMIT
        yield sentence[start:cut].strip()
        start = cut
    yield sentence[start:].strip()
