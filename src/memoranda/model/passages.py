"""Passages: the parts of a long text that are embedded, ranked and shown on their own.

A text is divided at its headings and paragraphs, and inside of long paragraphs at sentences or words. Consecutive
paragraphs of a section are joined while they are short. The division depends only on the text, so a passage is named by
its number.

`cut_window` returns the part of a text around a passage that fits into a number of characters. Which passage answers a
query best, `retrieval.passages` decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

# Characters from which the passages of a text are embedded, and named in results. Models read about 2,000 at once.
LONG_TEXT_CHARS: Final = 1_600
# Characters of a passage: a few paragraphs.
PASSAGE_CHARS: Final = 400
# Passages of a text; the text after the last one is found by keywords only.
PASSAGES_LIMIT: Final = 256

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]+(\S.*?)[ \t]*#*[ \t]*$")
_SENTENCE_END: Final = re.compile(r"[.!?…][\"'”’)]*\s+|[。！？]|\n")
# Headings whose words are indexed as titles.
_HEADINGS_LIMIT: Final = 64
_HEADING_CHARS: Final = 200


class Passage(NamedTuple):
    """A passage of a text: its first position, the position after it, and the heading above it."""

    start: int
    end: int
    heading: str = ""
    # The beginning of the sentence that answers a query best, for readers of less than the passage; 0 if unknown.
    focus: int = 0


class Window(NamedTuple):
    """A part of a text that is shown instead of all of it, and the characters left out before and after it."""

    text: str
    before: int
    after: int


class _Line(NamedTuple):
    start: int
    end: int
    # The text of a heading; None for other lines.
    heading: str | None
    is_blank: bool


def _iterate_lines(text: str) -> Iterator[_Line]:
    """Yield the lines of a text; lines in code blocks are no headings."""
    start, fence = 0, ""
    for raw in text.splitlines(keepends=True):
        mark = _FENCE.match(raw)
        heading = None
        if mark is not None and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence:
            match = _HEADING.match(raw.rstrip("\r\n"))
            heading = None if match is None else match[1][:_HEADING_CHARS]
        yield _Line(start, start + len(raw), heading, not raw.strip())
        start += len(raw)


def headings_of(text: str) -> list[str]:
    """Return the Markdown headings of a text."""
    if "#" not in text:
        return []
    lines = _iterate_lines(text)
    return [line.heading for line in lines if line.heading is not None][:_HEADINGS_LIMIT]


def split_passages(text: str) -> list[Passage]:
    """Return the passages of a text in their order."""
    passages: list[Passage] = []
    for block in _split_blocks(text):
        previous = passages[-1] if passages else None
        is_joined = (
            previous is not None
            and previous.heading == block.heading
            and block.end - previous.start <= PASSAGE_CHARS
        )
        if is_joined and previous is not None:
            passages[-1] = previous._replace(end=block.end)
        else:
            passages.append(block)
        if len(passages) > PASSAGES_LIMIT:
            return passages[:PASSAGES_LIMIT]
    return passages


def _split_blocks(text: str) -> Iterator[Passage]:
    """Yield the paragraphs of a text, long ones cut at sentences; a heading belongs to the paragraph below it."""
    heading, start, end, has_body = "", -1, -1, False
    for line in _iterate_lines(text):
        is_heading = line.heading is not None
        if start >= 0 and has_body and (is_heading or line.is_blank):
            yield from _cut_sentences(text, Passage(start, end, heading))
            start, has_body = -1, False
        if line.heading is not None:
            heading = line.heading
        if line.is_blank:
            continue
        start, end = (line.start if start < 0 else start), line.end
        has_body = has_body or not is_heading
    if start >= 0:
        yield from _cut_sentences(text, Passage(start, end, heading))


def _cut_sentences(text: str, block: Passage) -> Iterator[Passage]:
    """Yield a paragraph in parts of at most PASSAGE_CHARS, cut behind a sentence, else behind a word."""
    start = block.start
    while block.end - start > PASSAGE_CHARS:
        middle, last = start + PASSAGE_CHARS // 2, start + PASSAGE_CHARS
        ends = [match.end() for match in _SENTENCE_END.finditer(text, middle, last)]
        end = ends[-1] if ends else text.rfind(" ", middle, last) + 1
        end = end or last
        yield Passage(start, end, block.heading)
        start = end
    yield Passage(start, block.end, block.heading)


def split_sentences(text: str, passage: Passage) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the sentences of a passage."""
    start = passage.start
    for match in _SENTENCE_END.finditer(text, passage.start, passage.end):
        yield start, match.end()
        start = match.end()
    if start < passage.end:
        yield start, passage.end


def cut_window(text: str, max_chars: int, passage: Passage | None = None) -> Window:
    """Return the part of a text of at most `max_chars` characters around a passage; without one, the beginning."""
    if len(text) <= max_chars:
        return Window(text, 0, 0)
    start, end = (0, 0) if passage is None else (passage.start, min(passage.end, len(text)))
    room = max_chars - (end - start)
    if room < 0:
        focus = start if passage is None else max(start, passage.focus)
        start = min(focus, end - max_chars)
        end = start + max_chars
    else:
        # More of what follows than of what precedes: a passage begins with its heading.
        start = max(0, min(start - room // 3, len(text) - max_chars))
        end = min(len(text), start + max_chars)
    start, end = _to_word_start(text, start), _to_word_end(text, end)
    part = text[start:end]
    stripped = part.strip()
    before = start + len(part) - len(part.lstrip())
    return Window(stripped, before or 0, len(text) - before - len(stripped))


# Characters that are given up so that a window begins and ends with a word.
_WORD_SEARCH_CHARS: Final = 40


def _to_word_start(text: str, start: int) -> int:
    """Return the position of the first word at or after `start`, if it is near."""
    if start == 0 or text[start - 1].isspace():
        return start
    end = min(len(text), start + _WORD_SEARCH_CHARS)
    spaces = [position for position in range(start, end) if text[position].isspace()]
    return spaces[0] + 1 if spaces else start


def _to_word_end(text: str, end: int) -> int:
    """Return the end of the last word that ends at or before `end`, if it is near."""
    if end >= len(text) or text[end].isspace():
        return end
    start = max(0, end - _WORD_SEARCH_CHARS)
    spaces = [position for position in range(start, end) if text[position].isspace()]
    return spaces[-1] if spaces else end
