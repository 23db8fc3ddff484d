"""*.ump.md: one record as Markdown with a front matter (section 6.3).

    ---
    {"ump": "0.1", ...}       JSON, which is YAML too; everything but body.text
    ---

    The text.

`render` writes the same as the reference implementation. `parse` reads JSON and YAML front matter. A plain YAML value
is typed by its field, not by its form: `ump: 0.1`, `project: 010` and `agent: NO` are texts. Inside body.structured,
the rules of YAML 1.2 apply.

A round trip MUST be lossless, but readers drop blank lines around the text, and git and editors change line ends. If
that would lose something, the front matter carries hints. Hints contain whitespace only, so an edit of the visible text
always wins:

    "memoranda:edges": {"before": "\\n\\n", "after": "  "}  whitespace around the text
    "memoranda:newlines": "\\r\\n" or ["\\n", "\\r", …]     its line ends, one for all or one each
"""

from __future__ import annotations

import re
from typing import Any, Final

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MalformedJson, TooLarge
from memoranda.standards.ump.front_matter import parse_yaml
from memoranda.standards.ump.record import (
    MAX_RECORD_BYTES,
    MAX_TEXT_BYTES,
    Record,
    sort_known_fields,
)
from memoranda.standards.ump.shapes import Unchecked

EDGES: Final = "memoranda:edges"
NEWLINES: Final = "memoranda:newlines"

# Characters of front matter plus text, each at its own limit. UTF-8 may need more bytes; validation checks that later.
_MAX_CHARS: Final = MAX_RECORD_BYTES + MAX_TEXT_BYTES
# The characters that ECMAScript's trim removes; the reference implementation uses it.
_SPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
)
_WHITESPACE: Final = _SPACE + "\u2028\u2029\u202f\u205f\u3000\ufeff"
# Git turns \r\r\n into \r\n, so a run of \r that ends in \n counts as one break, before and after.
_BREAK = re.compile(r"\r*\n|\r")
_FENCE = re.compile(r"---[ \t]*(?:\r?\n)")
_CLOSING_FENCE = re.compile(r"^---[ \t]*\r?(?:\n|\Z)", re.MULTILINE)


def render(record: Record) -> str:
    """Return the record as Markdown."""
    body = record["body"]
    text = body["text"]
    header = {key: value for key, value in record.items() if key != "body"}
    other_members = {key: value for key, value in body.items() if key != "text"}
    if other_members:
        header["body"] = other_members
    before, inner_text, after = split_edges(text)
    if before or after:
        header[EDGES] = {"before": before, "after": after}
    if "\r" in inner_text:
        header[NEWLINES] = _find_newlines(inner_text)
    return f"---\n{json_text.dump_pretty(header)}\n---\n\n{text}\n"


def parse(text: str) -> Unchecked:
    """Parse a record, or the part of one that a person wrote. Raises InvalidInput."""
    if len(text) > _MAX_CHARS:
        raise TooLarge(f"Markdown of {len(text)} characters is over the limit of {_MAX_CHARS}")
    source = text.removeprefix("\ufeff")
    opening = _FENCE.match(source)
    if opening is None:
        raise InvalidInput("not a UMP Markdown file: it does not start with a --- line")
    closing = _CLOSING_FENCE.search(source, opening.end())
    if closing is None:
        raise InvalidInput("not a UMP Markdown file: the front matter has no closing --- line")
    header = _parse_front_matter(source[opening.end() : closing.start()])
    # If the fence itself ends in CRLF, git or an editor converted the complete file.
    converted = opening[0].endswith("\r\n")
    visible = _restore_whitespace(source[closing.end() :], header, is_crlf=converted)
    return _build_record(header, visible)


def _parse_front_matter(source: str) -> Unchecked:
    """Parse the front matter as JSON or YAML. Raises InvalidInput."""
    header: Any
    if source.lstrip().startswith("{"):
        try:
            header = json_text.parse(source)
        except MalformedJson as error:
            # A YAML flow mapping begins like JSON. If it is neither, report the error as JSON.
            try:
                header = parse_yaml(source)
            except InvalidInput:
                raise MalformedJson(f"front matter: {error.message}") from None
    else:
        header = parse_yaml(source)
    if not isinstance(header, dict):
        raise InvalidInput("front matter: it must be an object")
    return header


def _build_record(header: Unchecked, visible: str) -> Unchecked:
    """Combine the front matter and the visible text to a record."""
    fields = {key: value for key, value in header.items() if key not in (EDGES, NEWLINES)}
    body = fields.get("body", {})
    if not isinstance(body, dict):
        raise InvalidInput("front matter: body must be an object")
    # The visible text wins; a text in the header counts only without visible text.
    text = visible or body.get("text", "")
    fields["body"] = {**body, "text": text} if "text" in body else {"text": text, **body}
    return sort_known_fields(fields)


def _restore_whitespace(body: str, header: Unchecked, *, is_crlf: bool) -> str:
    """Restore the line ends and the surrounding whitespace that the hints describe."""
    if is_crlf:
        body = body.replace("\r\n", "\n")
    inner_text = split_edges(body)[1]
    if NEWLINES in header:
        inner_text = _restore_newlines(inner_text, header[NEWLINES])
    edges = header.get(EDGES)
    if not isinstance(edges, dict):
        return inner_text
    return _whitespace_hint(edges.get("before")) + inner_text + _whitespace_hint(edges.get("after"))


def split_edges(text: str) -> tuple[str, str, str]:
    """Split the text into leading blank lines, the visible part with its indentation, and trailing whitespace."""
    body = text.rstrip(_WHITESPACE)
    after = text[len(body) :]
    lead = body[: len(body) - len(body.lstrip(_WHITESPACE))]
    start = max(lead.rfind("\n"), lead.rfind("\r")) + 1
    return body[:start], body[start:], after


def _find_newlines(inner_text: str) -> str | list[str]:
    """Return the line ends of the text: one string if all are equal, else a list."""
    breaks = _BREAK.findall(inner_text)
    return breaks[0] if len(set(breaks)) == 1 else breaks


def _restore_newlines(inner_text: str, hint: Any) -> str:
    """Write the line ends of the hint into the text, if they match its lines."""
    lines = _BREAK.split(inner_text)
    breaks = [hint] * (len(lines) - 1) if isinstance(hint, str) else hint
    is_valid = isinstance(breaks, list) and all(
        isinstance(item, str) and _BREAK.fullmatch(item) for item in breaks
    )
    if not is_valid or len(breaks) != len(lines) - 1:
        # Lines were added or removed, so the line ends cannot be assigned any more.
        return "\n".join(lines)
    return "".join(line + line_end for line, line_end in zip(lines, [*breaks, ""], strict=True))


def _whitespace_hint(value: object) -> str:
    """Return the hint if it is whitespace; a hint must never contain invisible words."""
    return value if isinstance(value, str) and not value.strip(_WHITESPACE) else ""
