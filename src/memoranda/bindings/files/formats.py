"""The three file formats of records, each read and written one record at a time; and file names for records.

    json      *.ump.json              an array of records, or one; read whole, so limited in size
    ndjson    *.ndjson, *.jsonl       one record per line; any number of lines
    markdown  *.ump.md                one record, or a book of them (markdown_book)

A record that cannot be read does not end the reading: it yields an error in its place.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Final, Literal, cast

import msgspec

from memoranda.bindings.files import markdown_book
from memoranda.bindings.files.folder import STANDARD_STREAM, display_name, open_path, open_source
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError, SignatureInvalid, TooLarge
from memoranda.service.exchange.importing import Item
from memoranda.service.exchange.report import Report
from memoranda.standards.ump import jsonfile, signature
from memoranda.standards.ump.record import MAX_RECORD_BYTES
from memoranda.standards.ump.shapes import Record, Unchecked

Format = Literal["json", "ndjson", "markdown"]
# Grains are not records: `mg` reads and writes them. Nor are memories of OAMS: `oams` does.
GRAINS: Final = "mg"
OAMS: Final = "oams"
FileFormat = Literal["json", "ndjson", "markdown", "mg", "oams"]
# A record or the error in its place, and the line where it starts (0 if the format has no lines).
ParsedRecord = tuple[int, Unchecked | MemorandaError]

ENDINGS: Final[dict[str, Format]] = {
    ".ump.md": "markdown",
    ".md": "markdown",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "json",
}
MARKDOWN_ENDING: Final = ".ump.md"
GRAINS_ENDING: Final = ".mg"
# Bytes of one line: the largest record, and its line feed.
MAX_LINE_BYTES: Final = MAX_RECORD_BYTES + 1
_BOM: Final = b"\xef\xbb\xbf"
# Bytes read at once when lines are counted.
_CHUNK_BYTES: Final = 1_048_576
# Bytes of the words in a file name: enough to tell notes apart; the name stays below the 255 bytes of file systems.
_SLUG_BYTES: Final = 60
# Characters of an id that tell apart two memories with the same words.
_ID_CHARS: Final = 8
# Names that Windows reserves for devices.
_DEVICES: Final = frozenset(
    ("con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)), *(f"lpt{n}" for n in range(10)))
)


def format_by_name(name: str) -> Format | None:
    """Return the format that the ending of a file name stands for; None if it stands for none."""
    lowered = name.lower()
    return next(
        (file_format for ending, file_format in ENDINGS.items() if lowered.endswith(ending)), None
    )


def require_format(name: str) -> FileFormat:
    """Return the format that the ending of a file name stands for, grains included. Raises InvalidInput."""
    if name.lower().endswith(GRAINS_ENDING):
        return GRAINS
    if (file_format := format_by_name(name)) is None:
        raise InvalidInput(
            f"{name}: cannot tell the format from the name; end it in .ump.md, .ump.json, .ndjson or .mg"
        )
    return file_format


def write_records(file: IO[bytes], records: Iterable[Record], file_format: Format) -> None:
    """Write records as they come, holding one at a time."""
    if file_format == "ndjson":
        file.writelines(jsonfile.render_ndjson(records))
    elif file_format == "markdown":
        file.writelines(block.encode("utf-8") for block in markdown_book.render(records))
    else:
        file.writelines(_render_array(records))


def _render_array(records: Iterable[Record]) -> Iterator[bytes]:
    """Yield the bytes that `jsonfile.render_array` writes, record by record.

    Indenting every line is safe: no JSON string has a raw line feed.
    """
    opening = b"["
    for record in records:
        yield (
            opening + b"\n  " + json_text.dump_pretty(record).replace("\n", "\n  ").encode("utf-8")
        )
        opening = b","
    yield b"[]\n" if opening == b"[" else b"\n]\n"


def read_records(file: IO[bytes], file_format: Format | None) -> Iterator[ParsedRecord]:
    """Yield the records of a file; without a format, its first lines decide."""
    lines = read_bounded_lines(
        file, MAX_LINE_BYTES if file_format == "ndjson" else markdown_book.MAX_BLOCK_BYTES
    )
    if file_format is None:
        head = list(_read_head(lines))
        file_format, lines = _guess_format(head), chain(head, lines)
    if file_format == "markdown":
        yield from markdown_book.parse(lines)
    elif file_format == "ndjson":
        yield from _read_lines(lines)
    else:
        yield from _read_whole(lines)


class Records(msgspec.Struct, frozen=True):
    """The codec of records, in one format or, if it is None, in the format of a file's name or first lines."""

    file_format: FileFormat | None = None

    def items(self, source: str, stream: IO[bytes] | None = None) -> Iterator[Item]:
        """Yield the records of a file or of standard input, which `stream` replaces if it was partly read."""
        for number, record in self._read_source(source, stream):
            location = f"{display_name(source)}:{number}" if number > 1 else display_name(source)
            if isinstance(record, MemorandaError):
                yield Item(form="ump", where=location, number=number, error=record)
            else:
                yield Item(form="ump", where=location, number=number, value=record)

    def _read_source(self, source: str, stream: IO[bytes] | None) -> Iterator[ParsedRecord]:
        shape = cast("Format | None", self.file_format) or (
            None if source == STANDARD_STREAM else format_by_name(source)
        )
        try:
            with open_source(source, stream) as file:
                yield from read_records(file, shape)
        except OSError as error:
            yield 0, InvalidInput(error.strerror or str(error))
        except MemorandaError as error:
            yield 0, error

    def verify(
        self,
        source: str,
        report: Report,
        progress: Callable[[int], None],
        stream: IO[bytes] | None = None,
    ) -> None:
        """Check the integrity block of every record."""
        for item in self.items(source, stream):
            if item.error is not None:
                report.refuse(item.where, "", item.error)
            elif signature.verify(item.value):
                report.verified += 1
            else:
                problem = "the record is not signed"
                if "integrity" in item.value:
                    problem = "the signature does not match the record"
                report.refuse(item.where, item.name, SignatureInvalid(problem))
            progress(report.verified + report.refused)

    def count(self, source: str) -> int | None:
        """Return the number of records in a file with one on each line; None for other formats."""
        is_lines = self.file_format == "ndjson" or (
            self.file_format is None and format_by_name(source) == "ndjson"
        )
        return count_lines(Path(source)) if is_lines else None


RECORDS: Final = Records()


def count_lines(path: Path) -> int | None:
    """Count the lines of a file; None if it cannot be read."""
    try:
        with open_path(path) as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""))
    except OSError:
        return None


def read_bounded_lines(file: IO[bytes], max_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a file; of a longer line only the start, one byte over the limit, so that it is noticed."""
    while line := file.readline(max_bytes + 1):
        yield line
        while len(line) > max_bytes and not line.endswith(b"\n"):
            line = file.readline(max_bytes + 1) or b"\n"


def _read_head(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines up to the second non-blank one."""
    count = 0
    for line in lines:
        yield line
        count += bool(line.strip())
        if count == 2:
            return


def _guess_format(head: list[bytes]) -> Format:
    content = [line.removeprefix(_BOM).strip() for line in head if line.strip()]
    if not content:
        return "ndjson"
    if content[0].startswith((b"---", markdown_book.MARK.encode())):
        return "markdown"
    if content[0].startswith(b"["):
        return "json"
    if not content[0].startswith(b"{"):
        raise InvalidInput(
            "neither JSON nor Markdown with a front matter; name the format with --format"
        )
    if len(content) > 1 and content[1].startswith(b"{"):
        return "ndjson"
    try:
        json_text.parse(content[0])
    except InvalidInput:
        return "json"
    return "ndjson"


def _read_lines(lines: Iterable[bytes]) -> Iterator[ParsedRecord]:
    for number, line in enumerate(lines, start=1):
        body = line.removeprefix(_BOM).strip() if number == 1 else line.strip()
        if not body:
            continue
        try:
            if len(line) > MAX_LINE_BYTES:
                raise TooLarge(f"a line may have at most {MAX_LINE_BYTES} bytes")
            yield number, _require_object(json_text.parse(body, max_bytes=MAX_RECORD_BYTES))
        except MemorandaError as error:
            yield number, error


def _read_whole(lines: Iterable[bytes]) -> Iterator[ParsedRecord]:
    data = bytearray()
    for line in lines:
        data += line
        if len(data) > jsonfile.MAX_FILE_BYTES:
            yield (
                0,
                TooLarge(
                    f"over the limit of {jsonfile.MAX_FILE_BYTES} bytes; use NDJSON, which has none"
                ),
            )
            return
    try:
        records = jsonfile.parse_file(bytes(data))
    except MemorandaError as error:
        yield 0, error
        return
    for record in records:
        yield 0, record


def _require_object(value: object) -> Unchecked:
    if not isinstance(value, dict):
        raise InvalidInput("a record must be an object")
    return value


def list_record_files(folder: Path) -> list[Path]:
    """Return the record files directly in a folder, by name, without links and hidden files."""
    return [path for path in list_plain_files(folder) if format_by_name(path.name)]


def list_grain_files(folder: Path) -> list[Path]:
    """Return the .mg files directly in a folder, by name, without links and hidden files."""
    return [path for path in list_plain_files(folder) if path.name.lower().endswith(GRAINS_ENDING)]


def list_plain_files(folder: Path) -> list[Path]:
    """Return all files directly in a folder, by name, without links and hidden files."""
    return sorted(
        path
        for path in folder.iterdir()
        if not path.name.startswith(".") and not path.is_symlink() and path.is_file()
    )


# --- file names ------------------------------------------------------------------------------------------------------


def file_name(record: Record, used_names: Container[str], ending: str = MARKDOWN_ENDING) -> str:
    """Return a free file name for a memory, readable and safe on every system.

    It has the first words of the text, and a part of the id if the words are not enough. `used_names` are the names
    that are not free, in lower case.
    """
    slug = _slug(record["body"]["text"])
    key = record["id"].removeprefix("urn:ump:")
    for stem in (slug, f"{slug}-{key[:_ID_CHARS]}", key[:200], f"{slug}-{key[:150]}"):
        name = f"{stem.strip('-')}{ending}"
        if stem and stem not in _DEVICES and name.casefold() not in used_names:
            return name
    count = 2
    while (name := f"{slug}-{key[:100]}-{count}{ending}".lstrip("-")).casefold() in used_names:
        count += 1
    return name


def _slug(text: str) -> str:
    """Return the first words of the first line, in lower case, joined by hyphens; letters and digits only."""
    first = next((line for line in text.splitlines() if line.strip()), "")[:200]
    folded = unicodedata.normalize("NFC", first.lower())
    words = "".join(char if char.isalnum() else " " for char in folded).split()
    slug = ""
    for word in words:
        longer = f"{slug}-{word}" if slug else word
        if len(longer.encode("utf-8")) > _SLUG_BYTES:
            break
        slug = longer
    return slug
