r"""A Markdown book: several records in one *.ump.md file.

Each record stands as `standards.ump.markdown` writes it, after a line that says so:

    <!-- memoranda:memory -->
    ---
    {"ump": "0.1", …}
    ---

    The text.

    <!-- memoranda:memory -->
    …

A line of a text that looks like that mark gets a backslash, `<!-- memoranda:\memory -->`, and one that looks
like this gets another, so that nothing is lost. A file that does not start with the mark is one record in
exactly the form of the standard (UMP §6.3), and a book of one record is written as such a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

from memoranda.errors import InvalidInput, MemorandaError, TooLarge
from memoranda.standards.ump import markdown
from memoranda.standards.ump.record import MAX_RECORD_BYTES, MAX_TEXT_BYTES
from memoranda.standards.ump.shapes import Record, Unchecked

MARK: Final = "<!-- memoranda:memory -->"
# Front matter and text of one record, in bytes of UTF-8; pretty-printed front matter may double in size.
MAX_BLOCK_BYTES: Final = 2 * MAX_RECORD_BYTES + MAX_TEXT_BYTES
_MARK_LINE = re.compile(rb"<!-- memoranda:memory -->[ \t\r]*\n?")
_BOM: Final = b"\xef\xbb\xbf"
_ESCAPABLE = re.compile(r"^<!-- memoranda:(\\*)memory -->(?=[ \t\r]*$)", re.MULTILINE)
_ESCAPED = re.compile(r"^<!-- memoranda:\\(\\*)memory -->(?=[ \t\r]*$)", re.MULTILINE)


def render(records: Iterable[Record]) -> Iterator[str]:
    """Yield the text of each record; nothing if there are no records."""
    source = iter(records)
    first = list(islice(source, 2))
    if len(first) == 1:
        yield markdown.render(first[0])
        return
    for record in chain(first, source):
        block = _ESCAPABLE.sub(r"<!-- memoranda:\\\1memory -->", markdown.render(record))
        yield f"{MARK}\n{block}\n"


def parse(lines: Iterable[bytes]) -> Iterator[tuple[int, Unchecked | MemorandaError]]:
    """Read records with the number of the line each starts at; an error stands where one cannot be read."""
    for number, is_marked, field_index in _read_blocks(lines):
        try:
            yield number, _parse_record(field_index, is_marked=is_marked)
        except MemorandaError as error:
            yield number, error


def _parse_record(block: list[bytes] | None, *, is_marked: bool) -> Unchecked:
    if block is None:
        raise TooLarge(f"a record in Markdown may have at most {MAX_BLOCK_BYTES} bytes")
    data = b"".join(block)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"not UTF-8 at line {data.count(10, 0, error.start) + 1} of the record"
        ) from None
    return markdown.parse(_ESCAPED.sub(r"<!-- memoranda:\1memory -->", text) if is_marked else text)


def _read_blocks(lines: Iterable[bytes]) -> Iterator[tuple[int, bool, list[bytes] | None]]:
    """Yield each record as (number of its first line, True after a mark, its lines or None if they are too many)."""
    block: list[bytes] | None = []
    start, size, is_marked = 1, 0, False
    for number, line in enumerate(lines, start=1):
        # Without a mark at the very top there are no marks at all: the file is one record, whatever its text says.
        text_line = line.removeprefix(_BOM) if number == 1 else line
        if (number == 1 or is_marked) and _MARK_LINE.fullmatch(text_line):
            if number > 1:
                yield start, True, block
            block, start, size, is_marked = [], number + 1, 0, True
            continue
        size += len(line)
        if size > MAX_BLOCK_BYTES:
            block = None
        elif block is not None:
            block.append(line)
    if is_marked or block is None or block:
        yield start, is_marked, block
