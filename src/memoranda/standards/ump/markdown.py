"""*.ump.md: one record as Markdown with a front matter (section 6.3).

    ---
    {"ump": "0.1", ...}       JSON, which is YAML too; everything but body.text
    ---

    The text.

`render` writes what the reference writes. `parse` reads JSON and YAML front matter. Plain YAML values are
read by what the field holds, not by what they look like: `ump: 0.1`, `project: 010` and `agent: NO` are the
texts they appear to be; only inside body.structured do the rules of YAML 1.2 decide.

A round trip MUST be lossless, but readers drop blank lines around the text, and git and editors rewrite line
ends. When that would lose something, the front matter carries hints, which hold whitespace only, so that an
edit of the visible text always wins:

    "memoranda:edges": {"before": "\\n\\n", "after": "  "}  whitespace around the text
    "memoranda:newlines": "\\r\\n" or ["\\n", "\\r", …]     its own line ends, all alike or one by one
"""

from __future__ import annotations

import re
from typing import Any, Final

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MalformedJson, TooLarge
from memoranda.standards.ump.front_matter import parse_yaml
from memoranda.standards.ump.record import MAX_RECORD_BYTES, MAX_TEXT_BYTES, Record, in_order
from memoranda.standards.ump.shapes import Unchecked

EDGES: Final = "memoranda:edges"
NEWLINES: Final = "memoranda:newlines"

# Front matter and text, each within its own limit, in characters; UTF-8 takes more, which is checked later.
_MAX_CHARS: Final = MAX_RECORD_BYTES + MAX_TEXT_BYTES
# What ECMAScript trims, since the reference trims by it.
_SPACE: Final = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_WHITESPACE: Final = _SPACE + "\u2028\u2029\u202f\u205f\u3000\ufeff"
# Git turns \r\r\n into \r\n: a run that ends in a newline counts as one break, before and after.
_BREAK = re.compile(r"\r*\n|\r")
_FENCE = re.compile(r"---[ \t]*(?:\r?\n)")
_CLOSING_FENCE = re.compile(r"^---[ \t]*\r?(?:\n|\Z)", re.MULTILINE)


def render(record: Record) -> str:
    """Write the record as Markdown."""
    body = record["body"]
    text = body["text"]
    header = {key: value for key, value in record.items() if key != "body"}
    rest = {key: value for key, value in body.items() if key != "text"}
    if rest:
        header["body"] = rest
    before, core, after = split_edges(text)
    if before or after:
        header[EDGES] = {"before": before, "after": after}
    if "\r" in core:
        header[NEWLINES] = _newlines_of(core)
    return f"---\n{json_text.dump_pretty(header)}\n---\n\n{text}\n"


def parse(text: str) -> Unchecked:
    """Read a record, or the part of one that a person wrote; raises InvalidInput."""
    if len(text) > _MAX_CHARS:
        raise TooLarge(f"Markdown of {len(text)} characters is over the limit of {_MAX_CHARS}")
    source = text.removeprefix("\ufeff")
    opening = _FENCE.match(source)
    if opening is None:
        raise InvalidInput("not a UMP Markdown file: it does not start with a --- line")
    closing = _CLOSING_FENCE.search(source, opening.end())
    if closing is None:
        raise InvalidInput("not a UMP Markdown file: the front matter has no closing --- line")
    header = _front_matter(source[opening.end() : closing.start()])
    # A file whose own fence ends in CRLF was converted as a whole, by git or an editor.
    converted = opening[0].endswith("\r\n")
    visible = _restored(source[closing.end() :], header, converted=converted)
    return _record(header, visible)


def _front_matter(source: str) -> Unchecked:
    header: Any
    if source.lstrip().startswith("{"):
        try:
            header = json_text.parse(source)
        except MalformedJson as error:
            # A YAML flow mapping starts like JSON; if it is neither, JSON is what was meant.
            try:
                header = parse_yaml(source)
            except InvalidInput:
                raise MalformedJson(f"front matter: {error.message}") from None
    else:
        header = parse_yaml(source)
    if not isinstance(header, dict):
        raise InvalidInput("front matter: it must be an object")
    return header


def _record(header: Unchecked, visible: str) -> Unchecked:
    fields = {key: value for key, value in header.items() if key not in (EDGES, NEWLINES)}
    rest = fields.get("body", {})
    if not isinstance(rest, dict):
        raise InvalidInput("front matter: body must be an object")
    # What a person sees is what the record says; a text in the header counts only where none is visible.
    text = visible or rest.get("text", "")
    fields["body"] = {**rest, "text": text} if "text" in rest else {"text": text, **rest}
    return in_order(fields)


def _restored(body: str, header: Unchecked, *, converted: bool) -> str:
    if converted:
        body = body.replace("\r\n", "\n")
    core = split_edges(body)[1]
    if NEWLINES in header:
        core = _with_newlines(core, header[NEWLINES])
    edges = header.get(EDGES)
    if not isinstance(edges, dict):
        return core
    return _whitespace(edges.get("before")) + core + _whitespace(edges.get("after"))


def split_edges(text: str) -> tuple[str, str, str]:
    """Leading blank lines, what is visible, trailing whitespace; indentation is visible."""
    body = text.rstrip(_WHITESPACE)
    after = text[len(body) :]
    lead = body[: len(body) - len(body.lstrip(_WHITESPACE))]
    start = max(lead.rfind("\n"), lead.rfind("\r")) + 1
    return body[:start], body[start:], after


def _newlines_of(core: str) -> str | list[str]:
    breaks = _BREAK.findall(core)
    return breaks[0] if len(set(breaks)) == 1 else breaks


def _with_newlines(core: str, hint: Any) -> str:
    lines = _BREAK.split(core)
    breaks = [hint] * (len(lines) - 1) if isinstance(hint, str) else hint
    known = isinstance(breaks, list) and all(isinstance(item, str) and _BREAK.fullmatch(item) for item in breaks)
    if not known or len(breaks) != len(lines) - 1:
        # Someone added or removed lines: the old line ends no longer say which was which.
        return "\n".join(lines)
    return "".join(part for pair in zip(lines, [*breaks, ""], strict=True) for part in pair)


def _whitespace(value: Any) -> str:
    """The hint if it is whitespace: a hint must never smuggle in words that nobody sees."""
    return value if isinstance(value, str) and not value.strip(_WHITESPACE) else ""
