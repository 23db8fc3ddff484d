"""The Markdown serialization (section 7), lossless in both directions.

    ## key: 01HX...

    **namespace:** `user-x123ab:personal`
    **created:** 2026-04-27T12:00:00Z
    **updated:** 2026-04-27T12:00:00Z
    **source:** https://example.com/article
    **tags:** `research`, `memory`
    <!-- oams: {"metadata":{"confidence":0.9}} -->

    The value.

    ---

The comment contains, as JSON, every field that the lines above cannot express exactly; it is absent if there is none. A
second comment restores the bytes of the JSONL line, unless its fields are in the order of section 2:
`<!-- oams-order: [...] -->` lists the fields in their order, and
`<!-- oams-line: ... -->` is the line itself in base64, if it differs from ours. Both are ignored if the section was
edited since.

A line of the value that resembles the frame (`---`, `## key:`) gets a backslash in front, which Markdown does not show.
A section begins at a line `## key: ` and ends at the last `---` before the next section, so a rule in another vendor's
text does not end it. Only LF ends a line. If every line of a file ends in CR LF, CR LF counts as LF.

The form is for people: a section may be edited by hand, and what was not edited must come back byte for byte. Comments
carry what Markdown cannot show.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from memoranda.encoding import json_text
from memoranda.encoding.bases import base64_decode, base64_encode
from memoranda.errors import InvalidInput, MemorandaError, TooLarge
from memoranda.standards.oams import memory as memories
from memoranda.standards.oams.lines import Line, ReadableLines
from memoranda.standards.oams.memory import FIELD_ORDER, Memory, Unchecked

# Bytes: a memory with its original, and every character of its comment escaped.
MAX_SECTION_BYTES: Final = 32 * 1_048_576

_START: Final = "## key: "
_END: Final = "---"
_COMMENT: Final = re.compile(r"<!-- oams: (.*) -->")
_LINE_COMMENT: Final = re.compile(r"<!-- oams-(order|line): (.*) -->")
# Character sequences that a comment must not contain.
_UNSAFE: Final = re.compile(r"--|>")
_FIELD: Final = re.compile(r"\*\*(namespace|created|updated|source|tags):\*\* (.*)", re.DOTALL)
# Lines of a value that resemble the frame, with any number of backslashes in front.
_FRAME: Final = re.compile(r"\\*(?:---[ \t]*|## key:.*)", re.DOTALL)
_ESCAPED_FRAME: Final = re.compile(r"\\+(?:---[ \t]*|## key:.*)", re.DOTALL)
_SPAN: Final = re.compile(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", re.DOTALL)
_BREAKS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_BOM: Final = b"\xef\xbb\xbf"

_LINES: Final = {
    "namespace": "namespace",
    "created": "created_at",
    "updated": "updated_at",
    "source": "source_id",
}


# --- writing -----------------------------------------------------------------------------------------


def render_one(memory: Memory, raw: bytes | None = None) -> str:
    """Render a memory as a section, with an empty line after it. `raw` is its JSONL line, if it must be restorable."""
    visible_lines = _render_visible(memory)
    visible_fields = _parse_fields(visible_lines)
    other_fields = {
        name: member
        for name, member in memory.items()
        if name != "value" and not _is_visible(visible_fields, name, member)
    }
    is_plain = raw is None or json_text.dump(_sort_fields(memory)) == raw
    # Only correct lines are written: a wrong one would be read back as a field.
    head = [*visible_lines]
    if other_fields:
        head.append(_render_comment(other_fields))
    if raw is not None and not is_plain:
        head.append(_render_line_comment(memory, raw))
    body = [_escape_line(line) for line in memory["value"].split("\n")]
    return "\n".join([head[0], "", *head[1:], "", *body, "", _END, "", ""])


def _render_visible(memory: Memory) -> list[str]:
    """Render the heading and the one-line fields."""
    rendered = [_START + _BREAKS.sub(" ", memory["key"])]
    for name, field in _LINES.items():
        text = memory.get(field)
        if isinstance(text, str) and text and not _BREAKS.search(text):
            rendered.append(f"**{name}:** {code_span(text) if name == 'namespace' else text}")
    tags = memory.get("tags")
    if tags and not any(_BREAKS.search(tag) for tag in tags):
        rendered.append("**tags:** " + ", ".join(map(code_span, tags)))
    return rendered


def _is_visible(visible_fields: Mapping[str, object], name: str, member: object) -> bool:
    """Return True if the visible fields contain exactly this member."""
    return name in visible_fields and bool(visible_fields[name] == member)


def _render_comment(fields: Mapping[str, object]) -> str:
    """Render the comment with fields."""
    # A comment must contain neither "-->" nor "--". In JSON they can occur only inside strings, which are escaped.
    text = json_text.dump(fields).decode("utf-8").replace(">", "\\u003e").replace("--", "-\\u002d")
    # Line separators do not end lines for us, but for some editors.
    return f"<!-- oams: {text.replace(chr(0x2028), chr(92) + 'u2028').replace(chr(0x2029), chr(92) + 'u2029')} -->"


def _render_line_comment(memory: Memory, raw: bytes) -> str:
    """Render the comment that restores the bytes of the JSONL line."""
    names = list(memory)
    if json_text.dump(memory) == raw and not any(_UNSAFE.search(name) for name in names):
        return f"<!-- oams-order: {json_text.dump(names).decode()} -->"
    return f"<!-- oams-line: {base64_encode(raw)} -->"


def _restore_line(section: list[str], memory: Mapping[str, object]) -> bytes:
    """Return the JSONL line: from its comment if that matches the section, else rebuilt."""
    for line in _split_section(section)[0][1:]:
        match = _LINE_COMMENT.fullmatch(line.strip())
        if match is None:
            continue
        try:
            if match[1] == "line":
                raw = base64_decode(match[2])
                restored = json_text.parse(raw, max_bytes=MAX_SECTION_BYTES)
            else:
                restored = {name: memory[name] for name in json_text.parse(match[2])}
                raw = json_text.dump(restored)
            if json_text.canonical(restored) == json_text.canonical(memory):
                return raw
        except (MemorandaError, ValueError, LookupError, TypeError):
            continue
    return json_text.dump(memory)


def _escape_line(line: str) -> str:
    """Put a backslash in front of a line that resembles the frame."""
    return "\\" + line if _FRAME.fullmatch(line) else line


def code_span(text: str) -> str:
    """Return the text as a code span (CommonMark 6.1), fenced by backticks that it does not contain."""
    fence = "`"
    while fence in text:
        fence += "`"
    is_padded = (
        text.startswith("`") or text.endswith("`") or (text.startswith(" ") and text.endswith(" "))
    )
    return f"{fence} {text} {fence}" if is_padded and text.strip(" ") else f"{fence}{text}{fence}"


def _span_text(inner: str) -> str:
    """Return the text of a code span without its padding."""
    is_padded = inner.startswith(" ") and inner.endswith(" ") and inner.strip(" ")
    return inner[1:-1] if is_padded else inner


# --- reading -----------------------------------------------------------------------------------------


def read_memories(file: ReadableLines, *, complete: bool = True) -> Iterator[Line]:
    """Yield the memories of a file from its current position; a bad section yields an error instead."""
    for number, section in _split_sections(_read_bounded_lines(file)):
        try:
            if isinstance(section, MemorandaError):
                raise section
            value = parse_one(section)
            memory, warnings = memories.check(value, complete=complete)
        except MemorandaError as error:
            error.message = f"line {number}: {error.message}"
            error.args = (error.message,)
            yield Line(number=number, error=error)
        else:
            raw = _restore_line(section, memory)
            yield Line(number=number, raw=raw, memory=memory, warnings=warnings, is_verbatim=True)


def _read_bounded_lines(file: ReadableLines) -> Iterator[bytes]:
    """Yield lines with their ends; of a line too long for any section, only the beginning."""
    while data := file.readline(MAX_SECTION_BYTES + 1):
        yield data
        while len(data) > MAX_SECTION_BYTES and not data.endswith(b"\n"):
            data = file.readline(MAX_SECTION_BYTES + 1) or b"\n"


def _split_sections(lines: Iterable[bytes]) -> Iterator[tuple[int, list[str] | MemorandaError]]:
    """Yield each section from its heading on, with the number of its first line. Text before the first is skipped."""
    start, size_bytes = 0, 0
    section: list[bytes] = []
    ending = b"\n"
    for number, data in enumerate(lines, start=1):
        if number == 1:
            data = data.removeprefix(_BOM)
            ending = b"\r\n" if data.endswith(b"\r\n") else b"\n"
        if data.startswith(_START.encode("ascii")):
            if start:
                yield start, _decode_section(section, size_bytes)
            start, size_bytes, section = number, 0, []
        size_bytes += len(data)
        if start and size_bytes <= MAX_SECTION_BYTES:
            section.append(
                data.removesuffix(b"\n") if not data.endswith(ending) else data.removesuffix(ending)
            )
    if start:
        yield start, _decode_section(section, size_bytes)


def _decode_section(section: list[bytes], size_bytes: int) -> list[str] | MemorandaError:
    """Decode the lines of a section; return an error if it is too long or not UTF-8."""
    if size_bytes > MAX_SECTION_BYTES:
        return TooLarge(f"a section may have at most {MAX_SECTION_BYTES} bytes")
    try:
        return [line.decode("utf-8") for line in section]
    except UnicodeDecodeError:
        return InvalidInput("the section is not UTF-8")


def parse_one(section: list[str]) -> Unchecked:
    """Parse the memory of one section, without validation. Raises InvalidInput."""
    head, body = _split_section(section)
    memory = _parse_fields(head)
    matches = (_COMMENT.fullmatch(line.strip()) for line in head[1:])
    comments = [match[1] for match in matches if match is not None]
    if len(comments) > 1:
        raise InvalidInput("a section may have one comment with fields")
    for text in comments:
        fields = json_text.parse(text, max_bytes=MAX_SECTION_BYTES)
        if not isinstance(fields, dict) or "value" in fields:
            raise InvalidInput("the comment must contain an object of fields other than value")
        memory |= fields
    memory["value"] = "\n".join(_unescape_line(line) for line in body)
    return _sort_fields(memory)


def _sort_fields(memory: Mapping[str, Any]) -> Unchecked:
    """Return the fields in the order of section 2, which a section needs no comment to restore."""
    ordered_fields = {name: memory[name] for name in FIELD_ORDER if name in memory}
    return {**ordered_fields, **memory}


def _split_section(section: list[str]) -> tuple[list[str], list[str]]:
    """Split a section into its heading with the field lines, and the lines of the value."""
    index = 1
    while index < len(section) and not section[index].strip():
        index += 1
    first = index
    while index < len(section) and section[index].strip():
        index += 1
    head = [section[0], *section[first:index]]
    body = section[index + 1 :]
    end = len(body)
    while end and not body[end - 1].strip():
        end -= 1
    if end and body[end - 1].rstrip() == _END:
        # Our own sections have exactly one empty line before the end, after any empty lines of the value.
        body = body[: end - 1]
        return head, body[:-1] if body and not body[-1].strip() else body
    return head, body[:end]


def _parse_fields(head: list[str]) -> Unchecked:
    """Parse the fields in the heading and the lines below it."""
    fields: Unchecked = {"key": head[0].removeprefix(_START).strip()}
    for line in head[1:]:
        match = _FIELD.fullmatch(line.strip())
        if match is None:
            continue
        name, text = match[1], match[2].strip()
        if name == "tags":
            fields["tags"] = [_span_text(span[2]) for span in _SPAN.finditer(text)]
        else:
            span = _SPAN.fullmatch(text) if name == "namespace" else None
            fields[_LINES[name]] = _span_text(span[2]) if span else text
    return fields


def _unescape_line(line: str) -> str:
    """Remove the backslash from an escaped line."""
    return line[1:] if _ESCAPED_FRAME.fullmatch(line) else line
