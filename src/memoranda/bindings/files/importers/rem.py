"""REM: an export with `memories` and `dreams`, the results of its consolidation.

OAMS 7 maps it: a dream is a memory that keeps its strategy as `metadata.dream_strategy`. Nine names of strategies are
the same in both; any other is REM's own, and gets the prefix `vendor:` (section 6).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from memoranda.bindings.files.importers.importer import (
    DraftResult,
    FieldMapping,
    ImportDraft,
    Importer,
    first_moment,
    read_drafts,
    read_moment,
    read_text,
)
from memoranda.bindings.files.importers.source import ImportSource
from memoranda.errors import InvalidInput
from memoranda.standards.oams.memory import VENDOR_PREFIX, is_strategy

_TEXT: Final = ("value", "content", "text", "insight", "output", "summary")
_INPUTS: Final = ("inputs", "sources", "source_memories", "input_keys", "parents")


def _recognise(source: ImportSource) -> float:
    # Memories may come first, and push the dreams out of the first bytes.
    if not source.starts_with(b"{") or not any(
        mark in source.head for mark in (b'"dreams"', b'"memories"')
    ):
        return 0.0
    _, dream = next(source.read_documents("dreams"), ("", None))
    return 0.92 if isinstance(dream, dict) and "strategy" in dream else 0.0


def _read_rem(source: ImportSource) -> Iterator[DraftResult]:
    yield from read_drafts(source.read_documents("memories"), partial(_draft_memory, source=source))
    yield from read_drafts(source.read_documents("dreams"), partial(_draft_dream, source=source))


def _draft_memory(
    document: dict[str, object], location: str, *, source: ImportSource
) -> ImportDraft:
    name, text = read_text(document, "key", "id"), read_text(document, *_TEXT)
    if not name or not text:
        raise InvalidInput(
            "not a memory or a dream of REM: it needs a `key` or an `id`, and a `value`"
        )
    tags = document.get("tags")
    their_metadata = document.get("metadata")
    confidence = their_metadata.get("confidence") if isinstance(their_metadata, dict) else None
    return ImportDraft(
        where=location,
        id=name,
        text=text,
        original=document,
        user=read_text(document, "user_id"),
        scope=read_text(document, "namespace"),
        tags=tags if isinstance(tags, list) else (),
        created=first_moment(
            read_moment(document, "created_at", "createdAt", "timestamp"), source.modified
        ),
        updated=read_moment(document, "updated_at", "updatedAt"),
        confidence=confidence if isinstance(confidence, float) else None,
        metadata={"rem_metadata": their_metadata}
        if isinstance(their_metadata, dict) and their_metadata
        else {},
    )


def _draft_dream(
    document: dict[str, object], location: str, *, source: ImportSource
) -> ImportDraft:
    draft = _draft_memory(document, location, source=source)
    strategy = read_text(document, "strategy")
    if not strategy:
        raise InvalidInput("a dream of REM that names no `strategy`")
    inputs = next(
        (values for name in _INPUTS if isinstance(values := document.get(name), list)), []
    )
    keys = [
        name
        for entry in inputs
        if (name := entry if isinstance(entry, str) else _input_name(entry))
    ]
    run = read_text(document, "run_id")
    return msgspec.structs.replace(
        draft,
        parent=keys[0] if keys else "",
        inputs=keys,
        metadata={
            **draft.metadata,
            "dream_strategy": strategy if is_strategy(strategy) else f"{VENDOR_PREFIX}{strategy}",
            **({"dream_run_id": run} if run else {}),
        },
    )


def _input_name(document: object) -> str:
    return read_text(document, "key", "id") if isinstance(document, dict) else ""


REM: Final = Importer(
    name="rem",
    title="REM",
    recognise=_recognise,
    read_drafts=_read_rem,
    mapping=(
        FieldMapping(
            "`memories`, `dreams`: `value` (or `content`, `text`, `insight`, `output`, `summary`)",
            "`value`",
        ),
        FieldMapping("`key` (or `id`)", "`key`"),
        FieldMapping("`namespace`", "scope of `namespace`"),
        FieldMapping("`user_id`", "owner half of `namespace`"),
        FieldMapping(
            "dream: `strategy`",
            "`metadata.dream_strategy` (OAMS §7); one that OAMS has not is `vendor:…`",
        ),
        FieldMapping(
            "dream: `inputs` (or `sources`, `source_memories`, `input_keys`, `parents`)",
            "`metadata.dream_inputs`",
        ),
        FieldMapping("dream: the first of its inputs", "`parent_id`"),
        FieldMapping("dream: `run_id`", "`metadata.dream_run_id`"),
        FieldMapping(
            "`tags`, `metadata`", "`tags`, `metadata.rem_metadata`; its `confidence` is ours"
        ),
        FieldMapping("`created_at`, `updated_at`", "`created_at`, `updated_at`, in UTC"),
    ),
)
