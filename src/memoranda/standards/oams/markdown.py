"""The Markdown serialization (section 7), both ways, without loss.

    ## key: 01HX...

    **namespace:** `user-x123ab:personal`
    **created:** 2026-04-27T12:00:00Z
    **updated:** 2026-04-27T12:00:00Z
    **source:** https://example.com/article
    **tags:** `research`, `memory`
    <!-- oams: {"metadata":{"confidence":0.9}} -->

    The value.

    ---

The comment holds, as JSON, every field that the lines above it cannot say, or cannot say exactly; it is not there if
there is none. A second comment restores the line of JSONL to the byte: `<!-- oams-order: [...] -->` names the fields in
their order, `<!-- oams-line: ... -->` is the line itself in base64 where it is not what we would write. Both count only
as long as the section says what they say.

A line of the value that looks like the frame (`---`, `## key:`) gets a backslash before it, which Markdown does not
show. A section begins at a line `## key: ` and ends at the last `---` before the next one, so that a
rule in the text of another vendor is no end. Only LF ends a line; a file in which every line ends in CR LF is read as
if it had LF.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from memoranda.encoding import json_text
from memoranda.encoding.bases import base64_decode, base64_encode
from memoranda.errors import InvalidInput, MemorandaError, TooLarge
from memoranda.standards.oams import memory as memories
from memoranda.standards.oams.lines import Line, Readable
from memoranda.standards.oams.memory import Memory, Unchecked

# A memory with its original, and every character of its comment escaped.
MAX_SECTION_BYTES: Final = 32 * 1_048_576

_START: Final = "## key: "
_END: Final = "---"
_COMMENT: Final = re.compile(r"<!-- oams: (.*) -->")
_LINE_COMMENT: Final = re.compile(r"<!-- oams-(order|line): (.*) -->")
# What must not stand in a comment.
_UNSAFE: Final = re.compile(r"--|>")
_FIELD: Final = re.compile(r"\*\*(namespace|created|updated|source|tags):\*\* (.*)", re.DOTALL)
# The frame within a value, with any number of backslashes before it.
_FRAME: Final = re.compile(r"\\*(?:---[ \t]*|## key:.*)", re.DOTALL)
_ESCAPED_FRAME: Final = re.compile(r"\\+(?:---[ \t]*|## key:.*)", re.DOTALL)
_SPAN: Final = re.compile(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", re.DOTALL)
_BREAKS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_BOM: Final = b"\xef\xbb\xbf"

_LINES: Final = {"namespace": "namespace", "created": "created_at", "updated": "updated_at", "source": "source_id"}


# --- writing -----------------------------------------------------------------------------------------


def render_one(memory: Memory, raw: bytes | None = None) -> str:
    """A memory as a section, with an empty line after it; `raw` is its line, if that is to come back as it was."""
    human = _human(memory)
    said = _fields_of(human)
    rest = {name: member for name, member in memory.items() if name != "value" and not _says(said, name, member)}
    # A line that says what is not so would come back; none does, because lines only repeat fields.
    head = [*human, *([_comment(rest)] if rest else []), *([_line_comment(memory, raw)] if raw is not None else [])]
    body = [_escaped(line) for line in memory["value"].split("\n")]
    return "\n".join([head[0], "", *head[1:], "", *body, "", _END, "", ""])


def _human(memory: Memory) -> list[str]:
    """The heading and the lines of the fields that fit on one."""
    shown = [_START + _BREAKS.sub(" ", memory["key"])]
    for name, field in _LINES.items():
        text = memory.get(field)
        if isinstance(text, str) and text and not _BREAKS.search(text):
            shown.append(f"**{name}:** {code_span(text) if name == 'namespace' else text}")
    tags = memory.get("tags")
    if tags and not any(_BREAKS.search(tag) for tag in tags):
        shown.append("**tags:** " + ", ".join(map(code_span, tags)))
    return shown


def _says(said: dict[str, Any], name: str, member: object) -> bool:
    return name in said and bool(said[name] == member)


def _comment(fields: dict[str, Any]) -> str:
    # Neither "-->" nor "--" may stand in a comment. Outside of strings JSON has no such thing.
    text = json_text.dump(fields).decode("utf-8").replace(">", "\\u003e").replace("--", "-\\u002d")
    # Line separators are no line ends for us, but for some editors.
    return f"<!-- oams: {text.replace(chr(0x2028), chr(92) + 'u2028').replace(chr(0x2029), chr(92) + 'u2029')} -->"


def _line_comment(memory: Memory, raw: bytes) -> str:
    names = list(memory)
    if json_text.dump(memory) == raw and not any(_UNSAFE.search(name) for name in names):
        return f"<!-- oams-order: {json_text.dump(names).decode()} -->"
    return f"<!-- oams-line: {base64_encode(raw)} -->"


def _line_of(section: list[str], memory: Mapping[str, object]) -> bytes:
    """The line of a memory: as its comment restores it, if that says just what the section says."""
    for line in _split(section)[0][1:]:
        match = _LINE_COMMENT.fullmatch(line.strip())
        if match is None:
            continue
        try:
            if match[1] == "line":
                raw = base64_decode(match[2])
                told = json_text.parse(raw, max_bytes=MAX_SECTION_BYTES)
            else:
                told = {name: memory[name] for name in json_text.parse(match[2])}
                raw = json_text.dump(told)
            if json_text.canonical(told) == json_text.canonical(memory):
                return raw
        except (MemorandaError, ValueError, LookupError, TypeError):
            continue
    return json_text.dump(memory)


def _escaped(line: str) -> str:
    return "\\" + line if _FRAME.fullmatch(line) else line


def code_span(text: str) -> str:
    """A text as a code span (CommonMark 6.1): with a fence that it does not contain."""
    fence = "`"
    while fence in text:
        fence += "`"
    is_padded = text.startswith("`") or text.endswith("`") or (text.startswith(" ") and text.endswith(" "))
    return f"{fence} {text} {fence}" if is_padded and text.strip(" ") else f"{fence}{text}{fence}"


def _span_text(inner: str) -> str:
    is_padded = inner.startswith(" ") and inner.endswith(" ") and inner.strip(" ")
    return inner[1:-1] if is_padded else inner


# --- reading -----------------------------------------------------------------------------------------


def read(file: Readable, *, complete: bool = True) -> Iterator[Line]:
    """The memories of a file, from where it stands; a bad section gives an error in its place."""
    for number, section in _sections(_bounded(file)):
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
            raw = _line_of(section, memory)
            yield Line(number=number, raw=raw, memory=memory, warnings=warnings, is_verbatim=True)


def _bounded(file: Readable) -> Iterator[bytes]:
    """Lines with their ends; of one that is too long for any section only the start."""
    while data := file.readline(MAX_SECTION_BYTES + 1):
        yield data
        while len(data) > MAX_SECTION_BYTES and not data.endswith(b"\n"):
            data = file.readline(MAX_SECTION_BYTES + 1) or b"\n"


def _sections(lines: Iterable[bytes]) -> Iterator[tuple[int, list[str] | MemorandaError]]:
    """Each section from its heading on, and the number of its first line. What stands before the first is skipped."""
    start, size_bytes = 0, 0
    section: list[bytes] = []
    ending = b"\n"
    for number, data in enumerate(lines, start=1):
        if number == 1:
            data = data.removeprefix(_BOM)
            ending = b"\r\n" if data.endswith(b"\r\n") else b"\n"
        if data.startswith(_START.encode("ascii")):
            if start:
                yield start, _decoded(section, size_bytes)
            start, size_bytes, section = number, 0, []
        size_bytes += len(data)
        if start and size_bytes <= MAX_SECTION_BYTES:
            section.append(data.removesuffix(b"\n") if not data.endswith(ending) else data.removesuffix(ending))
    if start:
        yield start, _decoded(section, size_bytes)


def _decoded(section: list[bytes], size_bytes: int) -> list[str] | MemorandaError:
    if size_bytes > MAX_SECTION_BYTES:
        return TooLarge(f"a section may have at most {MAX_SECTION_BYTES} bytes")
    try:
        return [line.decode("utf-8") for line in section]
    except UnicodeDecodeError:
        return InvalidInput("the section is not UTF-8")


def parse_one(section: list[str]) -> Unchecked:
    """The memory of one section, unchecked. Raises InvalidInput."""
    head, body = _split(section)
    memory = _fields_of(head)
    comments = [match[1] for line in head[1:] if (match := _COMMENT.fullmatch(line.strip()))]
    if len(comments) > 1:
        raise InvalidInput("a section may have one comment with fields")
    for text in comments:
        fields = json_text.parse(text, max_bytes=MAX_SECTION_BYTES)
        if not isinstance(fields, dict) or "value" in fields:
            raise InvalidInput("the comment must hold an object of fields other than value")
        memory |= fields
    memory["value"] = "\n".join(_unescaped(line) for line in body)
    return memory


def _split(section: list[str]) -> tuple[list[str], list[str]]:
    """The heading with the lines of fields, and the lines of the value."""
    at = 1
    while at < len(section) and not section[at].strip():
        at += 1
    first = at
    while at < len(section) and section[at].strip():
        at += 1
    head = [section[0], *section[first:at]]
    body = section[at + 1 :]
    end = len(body)
    while end and not body[end - 1].strip():
        end -= 1
    if end and body[end - 1].rstrip() == _END:
        # What we write has exactly one empty line before the end, after whatever lines the value has.
        body = body[: end - 1]
        return head, body[:-1] if body and not body[-1].strip() else body
    return head, body[:end]


def _fields_of(head: list[str]) -> Unchecked:
    """What the heading and the lines below it say."""
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


def _unescaped(line: str) -> str:
    return line[1:] if _ESCAPED_FRAME.fullmatch(line) else line
