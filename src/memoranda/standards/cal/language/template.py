"""The text of template sections: where it ends, how it is trimmed, and which tags it may hold (section 10.6).

Templates are a subset of Mustache over a closed set of variables. They hold no code, read no files, and can reach only
the grains that were recalled.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from memoranda.standards.cal import limits
from memoranda.standards.cal.language import suggest
from memoranda.standards.cal.language.rules import RuleViolation

VARIABLES: Final = frozenset(
    """assembly.name assembly.intent assembly.source_count assembly.grain_count
    budget.total budget.used budget.remaining budget.unit budget.utilization disclosure.level timestamp
    source.label source.index source.priority source.grain_count source.tokens_used source.truncated
    grain.content grain.type grain.subject grain.relation grain.humanized_relation grain.object grain.confidence
    grain.importance grain.tags grain.created_at grain.relative_time grain.score grain.hash""".split()
)
# Names that may occur only as {{#…}} and {{^…}}.
CONDITIONS: Final = frozenset(("grain.is_full", "grain.is_summary"))
LOOP: Final = "each"
_LOOP_SECTIONS: Final = frozenset(("HEADER", "FOOTER"))

_BRACES: Final = re.compile(r"\{\{|\}\}|[{}]")
_TAG: Final = re.compile(r"\{\{(.)", re.DOTALL)
_NAME: Final = re.compile(r"[\w.]+")
_LAST_BREAK: Final = re.compile(r"\r?\n[ \t]*\Z")


class Tag(NamedTuple):
    """One `{{…}}`: its sign (`#`, `^`, `/`, `!` or none), its name, and its offsets in the text."""

    sign: str
    name: str
    start: int
    end: int


def find_section_end(text: str, start: int) -> int | None:
    """Return the offset of the brace that closes a section; doubled braces are tags.

    `start` is the offset of the section's text. None if no brace closes it.
    """
    depth = 1
    for match in _BRACES.finditer(text, start):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            depth -= 1
            if depth == 0:
                return match.start()
    return None


def trim_section(raw: str) -> str:
    """Return the text between the braces without the line breaks or spaces that separate it from them."""
    if "\n" not in raw:
        raw = raw.removeprefix(" ")
        return raw.removesuffix(" ")
    if raw.startswith(("\n", "\r\n")):
        raw = raw.partition("\n")[2]
        if not raw.strip(" \t"):
            return ""
    return _LAST_BREAK.sub("", raw)


def wrap_in_braces(text: str) -> str:
    """Return a text in braces such that `trim_section` restores it."""
    return f"{{\n{text}\n}}" if "\n" in text else f"{{ {text} }}"


def find_tags(text: str) -> list[Tag] | RuleViolation:
    """Return every tag of a text, or the first problem with one."""
    tags: list[Tag] = []
    position = 0
    while match := _TAG.search(text, position):
        sign = match[1]
        if sign in "{&=>":
            return _syntax_problem(f"{{{{{sign} is not part of templates")
        end = text.find("}}", match.end(1) if sign != "}" else match.start(1))
        if end < 0:
            return _syntax_problem("a tag is not closed")
        body = text[match.start(1) : end]
        sign = sign if sign in "#^/!" else ""
        tags.append(Tag(sign, body.removeprefix(sign).strip(), match.start(), end + 2))
        position = end + 2
    return tags


def check_section(section: str, text: str) -> RuleViolation | None:
    """Return the first problem of a section's text, or None.

    Checked are: only known variables, balanced sections, and at most `limits.TEMPLATE_DEPTH` levels.
    """
    tags = find_tags(text)
    if isinstance(tags, RuleViolation):
        return tags
    open_names: list[str] = []
    for tag in tags:
        if tag.sign == "!":
            continue
        if tag.sign == "/":
            if not open_names or open_names.pop() != tag.name:
                return _balance_problem(f"{{{{/{tag.name}}}}} closes nothing")
            continue
        if problem := _check_tag_name(section, tag):
            return problem
        if tag.sign:
            open_names.append(tag.name)
            if len(open_names) > limits.TEMPLATE_DEPTH:
                return RuleViolation(
                    "CAL-E093",
                    f"Sections nest at most {limits.TEMPLATE_DEPTH} deep.",
                    "Leave out the innermost.",
                )
    if open_names:
        return _balance_problem(f"{{{{#{open_names[-1]}}}}} is not closed")
    return None


def _check_tag_name(section: str, tag: Tag) -> RuleViolation | None:
    """Return the problem of a tag's name, or None."""
    name = tag.name
    if not _NAME.fullmatch(name):
        return _syntax_problem("a tag has no name")
    if tag.sign and name == LOOP:
        if tag.sign == "#" and section in _LOOP_SECTIONS:
            return None
        return _syntax_problem("{{#each}} is allowed only in HEADER and FOOTER")
    if name in VARIABLES or (tag.sign and name in CONDITIONS):
        return None
    hint = suggest.did_you_mean(name, sorted(VARIABLES))
    return RuleViolation(
        "CAL-E090",
        f'Unknown template variable "{name[:80]}".',
        hint or "Use grain.content, grain.type, …",
    )


def _syntax_problem(reason: str) -> RuleViolation:
    """Return the problem of a malformed tag."""
    return RuleViolation(
        "CAL-E094",
        f"The template is malformed: {reason}.",
        "Use {{variable}}, {{#section}}…{{/section}} or {{^section}}.",
    )


def _balance_problem(reason: str) -> RuleViolation:
    """Return the problem of a section that is not opened or closed correctly."""
    return RuleViolation(
        "CAL-E091",
        f"The template is not balanced: {reason}.",
        "Close every section in the order it was opened.",
    )
