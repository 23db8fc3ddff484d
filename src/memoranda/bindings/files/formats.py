"""The three file formats of records: which one a file has, and reading and writing records in it, one at a time.

    json      *.ump.json              an array of records, or one; read whole, so limited in size
    ndjson    *.ndjson, *.jsonl       one record per line; any number of lines
    markdown  *.ump.md                one record, or a book of them (markdown_book)

What cannot be read does not end the reading: an error stands in the place of the record.
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
# A record, or why there is none, and the line it starts at (0 if the format has no such thing).
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
# A record that fits, written with every character escaped, and its line feed.
MAX_LINE_BYTES: Final = MAX_RECORD_BYTES + 1
_BOM: Final = b"\xef\xbb\xbf"
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
    """The format a file name asks for."""
    lowered = name.lower()
    return next((known for ending, known in ENDINGS.items() if lowered.endswith(ending)), None)


def require_format(name: str) -> FileFormat:
    """The format a file name asks for; raises InvalidInput if it asks for none."""
    if name.lower().endswith(GRAINS_ENDING):
        return GRAINS
    if (known := format_by_name(name)) is None:
        raise InvalidInput(
            f"{name}: cannot tell the format from the name; end it in .ump.md, .ump.json, .ndjson or .mg"
        )
    return known


def write(file: IO[bytes], records: Iterable[Record], file_format: Format) -> None:
    """Write records as they come, holding one at a time."""
    if file_format == "ndjson":
        file.writelines(jsonfile.render_ndjson(records))
    elif file_format == "markdown":
        file.writelines(
            field_index.encode("utf-8") for field_index in markdown_book.render(records)
        )
    else:
        file.writelines(_render_array(records))


def _render_array(records: Iterable[Record]) -> Iterator[bytes]:
    """What `jsonfile.render_array` writes, in pieces. No JSON string holds a raw line feed."""
    opening = b"["
    for record in records:
        yield (
            opening + b"\n  " + json_text.dump_pretty(record).replace("\n", "\n  ").encode("utf-8")
        )
        opening = b","
    yield b"[]\n" if opening == b"[" else b"\n]\n"


def read(file: IO[bytes], file_format: Format | None) -> Iterator[ParsedRecord]:
    """Read the records of a file, finding out its format by its first lines if it is not known."""
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
    """Records in files of a format, or of whichever their names or first lines ask for."""

    file_format: FileFormat | None = None

    def items(self, source: str, stream: IO[bytes] | None = None) -> Iterator[Item]:
        """The records of one file, or of standard input; `stream`, if something of it was looked at already."""
        for number, found in self._read(source, stream):
            where = f"{display_name(source)}:{number}" if number > 1 else display_name(source)
            if isinstance(found, MemorandaError):
                yield Item(form="ump", where=where, number=number, error=found)
            else:
                yield Item(form="ump", where=where, number=number, value=found)

    def _read(self, source: str, stream: IO[bytes] | None) -> Iterator[ParsedRecord]:
        shape = cast("Format | None", self.file_format) or (
            None if source == STANDARD_STREAM else format_by_name(source)
        )
        try:
            with open_source(source, stream) as file:
                yield from read(file, shape)
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
                is_signed = "integrity" in item.value
                said = (
                    "the signature does not match the record"
                    if is_signed
                    else "the record is not signed"
                )
                report.refuse(item.where, item.name, SignatureInvalid(said))
            progress(report.verified + report.refused)

    def count(self, source: str) -> int | None:
        """How many there are, if each has a line."""
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
    """The lines of a file; of a line that is too long only its start, one byte over the limit."""
    while line := file.readline(max_bytes + 1):
        yield line
        while len(line) > max_bytes and not line.endswith(b"\n"):
            line = file.readline(max_bytes + 1) or b"\n"


def _read_head(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Lines up to the second one that says something."""
    telling = 0
    for line in lines:
        yield line
        telling += bool(line.strip())
        if telling == 2:
            return


def _guess_format(head: list[bytes]) -> Format:
    telling = [line.removeprefix(_BOM).strip() for line in head if line.strip()]
    if not telling:
        return "ndjson"
    if telling[0].startswith((b"---", markdown_book.MARK.encode())):
        return "markdown"
    if telling[0].startswith(b"["):
        return "json"
    if not telling[0].startswith(b"{"):
        raise InvalidInput(
            "neither JSON nor Markdown with a front matter; name the format with --format"
        )
    if len(telling) > 1 and telling[1].startswith(b"{"):
        return "ndjson"
    try:
        json_text.parse(telling[0])
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
    """The record files directly in a folder, links and hidden ones left out, by name."""
    return [path for path in list_plain_files(folder) if format_by_name(path.name)]


def list_grain_files(folder: Path) -> list[Path]:
    """The .mg files directly in a folder, likewise."""
    return [path for path in list_plain_files(folder) if path.name.lower().endswith(GRAINS_ENDING)]


def list_plain_files(folder: Path) -> list[Path]:
    """Every file directly in a folder, likewise."""
    return sorted(
        path
        for path in folder.iterdir()
        if not path.name.startswith(".") and not path.is_symlink() and path.is_file()
    )


# --- file names ------------------------------------------------------------------------------------------------------


def file_name(record: Record, used: Container[str], ending: str = MARKDOWN_ENDING) -> str:
    """Return a free file name for a memory, readable and safe on every system.

    It has the first words of the text, and a part of the id if the words are not enough. `used` are the names that are
    not free, in lower case.
    """
    slug = _slug(record["body"]["text"])
    key = record["id"].removeprefix("urn:ump:")
    for stem in (slug, f"{slug}-{key[:_ID_CHARS]}", key[:200], f"{slug}-{key[:150]}"):
        name = f"{stem.strip('-')}{ending}"
        if stem and stem not in _DEVICES and name.casefold() not in used:
            return name
    count = 2
    while (name := f"{slug}-{key[:100]}-{count}{ending}".lstrip("-")).casefold() in used:
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
