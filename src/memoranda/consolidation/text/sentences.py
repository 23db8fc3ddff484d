"""Splitting of text into sentences, in any script.

Markdown is treated as text: markers of lists, headings and quotations are dropped, and fence lines are skipped. A line
that begins with a lower-case letter continues the line before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from memoranda.consolidation.text.note import clean

# Characters of a sentence; a longer one is cut between words, so that a token budget can be met.
SENTENCE_CHARS_LIMIT: Final = 600
# Sentences of one text; the rest of a longer text, such as a book, is ignored.
SENTENCES_LIMIT: Final = 2_000

_MARKERS = re.compile(r"(?:(?:[-*+•‣◦·–—]|>+|#{1,6}|\d{1,3}[.)]|\[[ xX]\])\s+|>+)+")
_FENCE = re.compile(r"(?:```|~~~)")
# An ASCII full stop ends a sentence only before a space; scripts without spaces have full stops of their own.
_SENTENCE_END = re.compile(
    r"""[.!?…]{1,8}["'”’»)\]]{0,4}(?=\s)|[。！？｡؟۔।॥։።။។៕‼⁇⁈⁉]{1,8}["'”’»」』）)\]]{0,4}"""
)
_ABBREVIATIONS: Final = frozenset(
    "dr mr mrs ms prof st vs etc e.g i.e eg ie cf no nos vol p pp fig approx dept inc ltd co corp jr sr ca z.b bzw usw "
    "u.a d.h nr str evtl ggf bspw sog mme mlle sra av jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
_LAST_WORD = re.compile(r"([^\s(\[\"'“‘]{1,12})\Z")
_CODE = re.compile(r"""[{}\\]|</|/>|=>|->|::|&&|\|\||\(\)|^[|$"'<]|[|;,\\]$|^\S+\(|"\s?:|<\w+""")
_TERMINAL: Final = tuple(".!?…。！？｡؟۔।॥։።။។៕:：;；")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text in order, each on one line, without those that have no letter or digit."""
    sentences: list[str] = []
    for block in _join_lines(clean(text)):
        for sentence in _split_line(block):
            sentences.extend(
                piece for piece in _cut_long_sentence(sentence) if any(map(str.isalnum, piece))
            )
            if len(sentences) >= SENTENCES_LIMIT:
                return sentences[:SENTENCES_LIMIT]
    return sentences


def join_statements(statements: Sequence[str]) -> str:
    """Join statements into one text: one as it is, several as a list that splits into the same statements again."""
    if len(statements) == 1:
        return statements[0]
    return "\n".join(f"- {statement}" for statement in statements)


def is_code(sentence: str) -> bool:
    """Return True if a line looks like program code, data or a table."""
    return _CODE.search(sentence) is not None


def _join_lines(text: str) -> Iterator[str]:
    """Yield the lines without list markers, continued lines joined."""
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


def _split_line(line: str) -> Iterator[str]:
    start = 0
    for match in _SENTENCE_END.finditer(line):
        if match[0][0] in ".!?…" and not _ends_sentence(line, match):
            continue
        sentence = line[start : match.end()].strip()
        if sentence:
            yield sentence
        start = match.end()
    tail = line[start:].strip()
    if tail:
        yield tail


def _ends_sentence(line: str, match: re.Match[str]) -> bool:
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


def _cut_long_sentence(sentence: str) -> Iterator[str]:
    start = 0
    while len(sentence) - start > SENTENCE_CHARS_LIMIT:
        space = sentence.rfind(" ", start + SENTENCE_CHARS_LIMIT // 2, start + SENTENCE_CHARS_LIMIT)
        cut_position = space if space > 0 else start + SENTENCE_CHARS_LIMIT
        yield sentence[start:cut_position].strip()
        start = cut_position
    yield sentence[start:].strip()
