"""Notes: Markdown and text as people and agents keep them, one memory for each file.

An Obsidian vault, any folder of notes, or a single note; the notes of basic-memory; the folder of Anthropic's memory
tool; and files with rules for coding agents, of which each section is a memory of its own. An import copies once:
`memoranda sync` keeps a folder and the store the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from memoranda.bindings.files.importers.importer import (
    DraftResult,
    FieldMapping,
    ImportDraft,
    Importer,
    Unreadable,
    parse_moment,
)
from memoranda.bindings.files.importers.source import ImportSource
from memoranda.bindings.files.note import ENDINGS, Note, links_in
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.model.instant import Instant
from memoranda.model.memory import KINDS, Kind

_TEXTS: Final = (*ENDINGS, ".txt")
# Endings of our records and of memories of OAMS, which are no notes.
_RECORDS: Final = (".ump.md", ".oams.md")
_RULES: Final = (
    "claude.md",
    "agents.md",
    "gemini.md",
    ".cursorrules",
    ".windsurfrules",
    "copilot-instructions.md",
)
_RULES_ENDING: Final = ".mdc"
# Bytes of one note, which becomes one memory.
_MAX_BYTES: Final = 1_048_576
_CREATED: Final = ("created", "created_at", "date", "date created")
_UPDATED: Final = ("updated", "updated_at", "modified", "last_modified", "date modified")
# An observation of basic-memory: `- [category] what was observed #tag (context)`.
_OBSERVATION: Final = re.compile(
    r"^[ \t]*[-*] \[(?!\s?\]|[xX]\])([^\[\]\n]{1,60})\] (?!\()(.+)$", re.MULTILINE
)
_HEADING: Final = re.compile(r"^#{1,6} +([^\n]+)$", re.MULTILINE)
_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)


def _is_note(name: str, endings: Sequence[str] = _TEXTS) -> bool:
    lowered = name.lower()
    return lowered.endswith(tuple(endings)) and not lowered.endswith(_RECORDS)


def _find_notes(
    source: ImportSource, endings: Sequence[str] = _TEXTS
) -> Iterator[tuple[str | None, str]]:
    """Yield the notes of a source as (member, or None for the file itself; name)."""
    if source.is_folder or source.is_archive:
        yield from ((member, member) for member in source.members if _is_note(member, endings))
    else:
        yield None, source.path.name


def _read_each_note(
    source: ImportSource, endings: Sequence[str], drafts: Callable[..., Iterator[DraftResult]]
) -> Iterator[DraftResult]:
    """Yield the drafts that a function makes of each note, or the error of a note that cannot be read."""
    for member, name in _find_notes(source, endings):
        location = source.where(member)
        try:
            note = Note.parse(source.read_bytes(member, max_bytes=_MAX_BYTES))
        except MemorandaError as error:
            yield Unreadable(location, error)
            continue
        except OSError as error:
            yield Unreadable(location, InvalidInput(error.strerror or str(error)))
            continue
        yield from drafts(note, name, location, source.modified_at(member))


def _draft_note(
    note: Note,
    name: str,
    location: str,
    modified: Instant,
    tags: Sequence[str] = (),
    **metadata: object,
) -> Iterator[DraftResult]:
    """Yield the draft of a note; nothing for an empty one."""
    if not note.text.strip():
        return
    title = note.title or PurePosixPath(name).stem
    links = list(dict.fromkeys(target for _, target in links_in(note.text)))
    kind: Kind = next(
        (memory_kind for memory_kind in KINDS if memory_kind == note.kind), "semantic"
    )
    yield ImportDraft(
        where=location,
        id=name,
        text=note.text,
        original=note.data().decode("utf-8"),
        kind=kind,
        tags=[*(note.tags or ()), *tags],
        created=_property_moment(note, _CREATED) or modified,
        updated=_property_moment(note, _UPDATED) or modified,
        source=name,
        metadata={
            "title": title,
            "value_type": "markdown",
            **({"aliases": list(note.aliases)} if note.aliases else {}),
            **({"links": links} if links else {}),
            **metadata,
        },
    )


def _property_moment(note: Note, names: Sequence[str]) -> Instant | None:
    properties = note.properties
    if properties is None:
        return None
    return next(
        (instant for name in names if (instant := parse_moment(properties.text(name))) is not None),
        None,
    )


# --- notes and vaults ------------------------------------------------------------------------------------------------


def _recognise_notes(source: ImportSource) -> float:
    if not (source.is_folder or source.is_archive):
        return 0.6 if _is_note(source.path.name) and not _is_memoranda_file(source) else 0.0
    if source.is_folder and (source.path / ".obsidian").is_dir():
        return 0.95
    if not any(_is_note(member, ENDINGS) for member in source.members):
        return 0.0
    # A folder that also contains records of Memoranda is read file by file instead.
    return 0.0 if any(member.lower().endswith(_RECORDS) for member in source.members) else 0.6


def _is_memoranda_file(source: ImportSource) -> bool:
    """Return True if the text of a file marks it as a record, or as memories of OAMS."""
    return any(mark in source.head for mark in (b"\nump:", b"## key: "))


def _read_notes(source: ImportSource) -> Iterator[DraftResult]:
    return _read_each_note(source, _TEXTS, _draft_note)


NOTES: Final = Importer(
    name="notes",
    title="notes",
    recognise=_recognise_notes,
    read_drafts=_read_notes,
    mapping=(
        FieldMapping("the text below the properties", "`value`"),
        FieldMapping("the path in the folder", "`key`, and `source_id`"),
        FieldMapping("`title`, or the name of the file", "`metadata.title`"),
        FieldMapping("`aliases`", "`metadata.aliases`"),
        FieldMapping("`tags` and `#tags`", "`tags`"),
        FieldMapping("`kind`", "the kind of memory, if it is one"),
        FieldMapping("`[[links]]`", "`metadata.links`"),
        FieldMapping(
            "`created` (or `date`), `updated` (or `modified`)",
            "`created_at`, `updated_at`; by default the time of the file",
        ),
        FieldMapping("`.obsidian`, other hidden files, attachments, empty notes", "left out"),
    ),
)


# --- basic-memory ----------------------------------------------------------------------------------------------------


def _recognise_basic_memory(source: ImportSource) -> float:
    """Return the probability of basic-memory, judged by the permalink that every note has."""
    for member, name in _find_notes(source, ENDINGS):
        if not _is_note(name, ENDINGS):
            return 0.0
        head = source.head if member is None else source.member_head(member)
        return (
            0.9
            if head.startswith(b"---") and b"\npermalink:" in head.partition(b"\n---")[0]
            else 0.0
        )
    return 0.0


def _draft_basic_memory(
    note: Note, name: str, location: str, modified: Instant
) -> Iterator[DraftResult]:
    observations = [
        {"category": match[1], "text": match[2]} for match in _OBSERVATION.finditer(note.text)
    ]
    categories = [match["category"] for match in observations]
    permalink = None if note.properties is None else note.properties.text("permalink")
    metadata = {"observations": observations} if observations else {}
    yield from _draft_note(note, permalink or name, location, modified, categories, **metadata)


def _read_basic_memory(source: ImportSource) -> Iterator[DraftResult]:
    return _read_each_note(source, ENDINGS, _draft_basic_memory)


BASIC_MEMORY: Final = Importer(
    name="basic-memory",
    title="basic-memory",
    recognise=_recognise_basic_memory,
    read_drafts=_read_basic_memory,
    mapping=(
        FieldMapping("`permalink`", "`key`"),
        FieldMapping(
            "`- [category] observation`",
            "in `value`, and in `metadata.observations`; the category is a tag",
        ),
        FieldMapping("`- relation [[Target]]`", "in `value`; the target in `metadata.links`"),
        FieldMapping("all other fields", "like notes"),
    ),
)


# --- Anthropic's memory tool -----------------------------------------------------------------------------------------


def _recognise_memory_tool(source: ImportSource) -> float:
    """Return the probability of the memory tool: the name of its folder, with only text files in it."""
    if not source.is_folder or source.path.resolve().name != "memories":
        return 0.0
    return (
        0.7
        if source.members and all(_is_note(member, (*_TEXTS, ".xml")) for member in source.members)
        else 0.0
    )


def _read_memory_tool(source: ImportSource) -> Iterator[DraftResult]:
    return _read_each_note(source, (*_TEXTS, ".xml"), _draft_note)


MEMORY_TOOL: Final = Importer(
    name="memory-tool",
    title="Anthropic's memory tool",
    recognise=_recognise_memory_tool,
    read_drafts=_read_memory_tool,
    mapping=(
        FieldMapping("a file of `/memories`", "a memory: `value`"),
        FieldMapping("its path", "`key`, and `source_id`"),
        FieldMapping("(no times)", "the time of the file"),
    ),
)


# --- rules for coding agents -----------------------------------------------------------------------------------------


def _recognise_rules(source: ImportSource) -> float:
    name = source.path.name.lower()
    return 0.9 if not source.is_folder and (name in _RULES or name.endswith(_RULES_ENDING)) else 0.0


def _draft_sections(
    note: Note, name: str, location: str, modified: Instant
) -> Iterator[DraftResult]:
    """Yield a draft for each section."""
    counts_by_heading: dict[str, int] = {}
    for heading, text in _split_sections(note.text):
        # Sections with the same heading are numbered.
        counts_by_heading[heading] = number = counts_by_heading.get(heading, 0) + 1
        title = heading or PurePosixPath(name).stem
        yield ImportDraft(
            where=location,
            id=f"{name}#{heading}" + (f" {number}" if number > 1 else ""),
            text=f"{title}\n\n{text}" if heading else text,
            original=text,
            kind="procedural",
            created=modified,
            source=name,
            metadata={"title": title, "value_type": "markdown"},
        )


def _split_sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield each heading with the text below it; lines of code blocks are no headings."""
    masked = _FENCE.sub(lambda block: " " * len(block[0]), text)
    headings = [
        (match.start(), match.end(), match[1].rstrip(" #")) for match in _HEADING.finditer(masked)
    ]
    starts = [(0, 0, ""), *headings]
    for (_, start, heading), next_position in zip(starts, [*headings, None], strict=True):
        body = text[start : len(text) if next_position is None else next_position[0]].strip()
        if body:
            yield heading, body


def _read_rules(source: ImportSource) -> Iterator[DraftResult]:
    return _read_each_note(source, _TEXTS, _draft_sections)


RULES: Final = Importer(
    name="agent-rules",
    title="rules for coding agents",
    recognise=_recognise_rules,
    read_drafts=_read_rules,
    mapping=(
        FieldMapping(
            "`CLAUDE.md`, `AGENTS.md`, `GEMINI.md`, `.cursorrules`, `*.mdc` …: each section",
            "a procedural memory",
        ),
        FieldMapping("its heading", "`metadata.title`, and the first line of `value`"),
        FieldMapping("file and heading", "`key`"),
        FieldMapping("(no times)", "the time of the file"),
    ),
)
