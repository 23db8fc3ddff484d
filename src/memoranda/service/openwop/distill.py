"""Compaction, distillation and consolidation of a memoryRef (openwop), without a language model.

Compaction replaces many entries by one that keeps all their statements. Distillation leaves the entries alone and
writes an archive of them within a token budget, the same bytes for the same sources and budget. Consolidation replaces
duplicates, and entries that a later one contradicts. Compaction and consolidation can be undone (`ref_entries.undo`).

All three read one ref of one tenant in a snapshot, prepare the result before they need the writer, and write it in a
unit of work that raises Conflict if the entries changed meanwhile; `retry_on_conflict` then repeats the operation.
Results pass the same redaction as a fresh put (SR-1 carry-forward), and each operation is logged in a run of our own.

Rules for all three operations: results contain only sentences of the sources; an entry on hold or with an expiry is
never replaced; nothing is lost that cannot be undone; running again changes nothing. The same sources and budget give
the same bytes, which other hosts compare.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from memoranda.consolidation.text import sentences
from memoranda.consolidation.text.note import MemoryNote, TokenCounter
from memoranda.encoding import json_text
from memoranda.errors import Conflict, InvalidInput, WorkflowError
from memoranda.model.instant import DAY_MS, Instant, parse_instant
from memoranda.model.memory import Version
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, retry_on_conflict
from memoranda.service.core.lineage import get_source_name, note_replaced
from memoranda.service.core.views import is_intact
from memoranda.service.openwop import memory, runs, workspace
from memoranda.service.openwop.ref_entries import (
    EntryVersion,
    audit_run,
    build_notes,
    build_provenance_tags,
    load_all_entries,
    load_entries,
    require_space,
    require_unchanged,
    select_replaceable,
)
from memoranda.service.openwop.runs import UNDO_RECORDS, Run
from memoranda.service.openwop.secrets import RunKey
from memoranda.standards.openwop import events, mapping
from memoranda.standards.openwop.entry import (
    ARCHIVE_TAG,
    MAX_CONTENT_BYTES,
    Draft,
    Entry,
    is_archive,
)
from memoranda.standards.openwop.events import Event
from memoranda.standards.openwop.problem import TOKEN_BUDGET_EXCEEDED
from memoranda.standards.openwop.runs import effective_budget
from memoranda.standards.port import port_of
from memoranda.storage.engine.contract import Snapshot, Unit

# The modules of `consolidation` are imported where they are used: writing and reading entries does without them.

# Tokens of sources and archive together: a fair part of a context window.
MAX_TOKEN_BUDGET: Final = 16_000
ARCHIVE_RETENTION_DAYS: Final = 365
# Share of the budget for the summary. The rest is for the sources that are read.
_OUTPUT_SHARE: Final = 0.25
# Bytes of a compacted entry: half of the limit of an entry, because redaction may lengthen a text.
_COMPACTED_BYTES_LIMIT: Final = MAX_CONTENT_BYTES // 2
# Tags without a colon that a compacted entry takes over: enough to find it by.
_LABELS_LIMIT: Final = 20
# Prefixes of the tags that Memoranda gives to the results of consolidation runs.
_RESULT_PREFIXES: Final = (mapping.COMPACTED_PREFIX, mapping.DERIVED_PREFIX)
# Changed versions of a space that are examined in a unit of work; after more, the distillation starts again.
_CHANGES_LIMIT: Final = 100
# Rounds of one consolidation. Each looks for duplicates among the entries that the rounds before left; the next
# consolidation continues after the last.
_ROUNDS_LIMIT: Final = 16


class TokenBudgetExceededError(WorkflowError):
    """The error of a budget that is too small for even one statement."""

    def __init__(self, budget: int, minimum: int) -> None:
        super().__init__(
            f"a budget of {budget} tokens is too small; {minimum} are needed",
            openwop_code=TOKEN_BUDGET_EXCEEDED,
            details={"budget": budget, "minimumRequired": minimum},
        )
        self.budget, self.minimum = budget, minimum


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a compaction."""

    run: Run
    event: Event
    entry: Entry


class Distilled(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a distillation."""

    run: Run
    event: Event
    entry: Entry
    checksum: str
    index: dict[str, Any] | None


class Consolidated(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a consolidation."""

    run: Run
    event: Event
    # For each replaced entry: its `id`, the id of the entry in its place (`by`), and the reason (`why`).
    taken: tuple[dict[str, str], ...] = ()
    # Pairs of entries that contradict each other and both stay, for review.
    contradictions: tuple[tuple[str, str], ...] = ()
    # By entry: the number of duplicates that it replaced; each counts as one use of the entry.
    strengthened: dict[str, int] = msgspec.field(default_factory=dict)


# --- compaction ----------------------------------------------------------------------------------------------


def compact(context: Context, access: Access, ref: str) -> Compacted:
    """Replace the entries of a ref by one that keeps their statements, each once, in their order. Can be undone.

    Entries with an expiry stay, so that they end on time, and so do entries on legal hold. Of more entries than one can
    hold, the newest stay. Raises InvalidInput if there is nothing to compact.
    """
    space = require_space(access, ref)
    return retry_on_conflict(lambda: _compact(context, access, ref, space))


def _compact(context: Context, access: Access, ref: str, space: str) -> Compacted:
    """Compact a ref once. Raises Conflict if the entries change before the result is written."""
    now, tenant = context.clock(), access.default_tenant
    sources = _load_replaceable(context, tenant, space, now)
    if not sources:
        raise InvalidInput("memoryRef: there is nothing to compact")
    sources, text = _join_sources(sources)
    ids = [entry["id"] for _, entry in sources]
    # A tag with a colon, such as `subject:ada`, stays with the entry that it was written for.
    labels = dict.fromkeys(tag for _, entry in sources for tag in entry["tags"] if ":" not in tag)
    run_id = runs.new_run_id()
    tags = (*build_provenance_tags(run_id, ids), *list(labels)[:_LABELS_LIMIT])
    draft = context.secrets.redact_draft(Draft(content=text, tags=tags), None)
    # The new entry is as old as its newest source.
    created = max(parse_instant(entry["createdAt"]) for _, entry in sources)
    new_entry = memory.prepare(context, tenant, space, draft, created)
    record = {"space": space, "made": new_entry.entry["id"], "taken": []}
    payload: dict[str, object] = {
        "memoryRef": ref,
        "outputId": new_entry.entry["id"],
        "sourceCount": len(ids),
        "trigger": "host-managed",
        "byteSize": len(new_entry.entry["content"].encode()),
    }
    if len(ids) <= events.MAX_LISTED_SOURCES:
        payload["sourceIds"] = ids
    replaced = [version.version_id for version, _ in sources]

    def work(unit: Unit) -> Compacted:
        require_unchanged(unit, replaced)
        version = memory.append(unit, new_entry, now)
        unit.supersede([(version_id, version.version_id) for version_id in replaced], now=now)
        note_replaced(unit, new_entry.entry["id"], replaced)
        run, logged = runs.host_run(
            unit,
            "compaction",
            now,
            (events.MEMORY_COMPACTED, payload),
            run_id=run_id,
            access=access,
        )
        unit.put_item(UNDO_RECORDS, run.run_id, json_text.dump(record))
        audit_run(unit, access, "compact", space, now, f"{len(ids)} entries into one")
        return Compacted(run=run, event=logged[0], entry=new_entry.entry)

    return context.engine.write(tenant, work)


def _load_replaceable(
    context: Context, tenant: str, space: str, now: Instant
) -> list[EntryVersion]:
    """Return the entries that a run may replace and that have no expiry, oldest first."""
    with context.engine.open_snapshot(tenant) as snapshot:
        return [
            (version, entry)
            for version, entry in select_replaceable(load_entries(snapshot, space, now))
            if "expiresAt" not in entry
        ]


def _join_sources(sources: Sequence[EntryVersion]) -> tuple[list[EntryVersion], str]:
    """Return the sources that fit into one entry, oldest first, and their joined texts.

    The text of an entry is left out if later entries make all of its statements, so that every statement stays in its
    latest wording.
    """
    remaining_bytes = _COMPACTED_BYTES_LIMIT
    fitting: list[EntryVersion] = []
    for version, entry in sources:
        remaining_bytes -= len(entry["content"].encode()) + len("\n\n- ")
        if remaining_bytes < 0 and fitting:
            break
        fitting.append((version, entry))
    statements_by_entry: dict[str, set[Hashable]] = defaultdict(set)
    from memoranda.consolidation.text.corpus import Corpus

    for sentence in Corpus(build_notes(fitting)).sentences:
        statements_by_entry[sentence.note.name].add(sentence.key)
    covered: set[Hashable] = set()
    texts = []
    for _, entry in reversed(fitting):
        # A text without statements, such as a list of numbers, counts as one statement.
        statements = statements_by_entry.get(entry["id"]) or {entry["content"]}
        if not statements <= covered:
            covered |= statements
            texts.append(entry["content"].strip("\n"))
    texts.reverse()
    if any("\n" in text for text in texts):
        return fitting, "\n\n".join(texts)
    return fitting, sentences.join_statements(texts)


# --- distillation --------------------------------------------------------------------------------------------


def distill(
    context: Context,
    access: Access,
    ref: str,
    *,
    token_budget: int | None = None,
    is_indexed: bool = True,
    given: Sequence[str] | None = None,
    run_id: str | None = None,
    of_archives: bool = False,
) -> Distilled:
    """Write an archive of a ref within a token budget.

    `given` are texts to distil instead of the entries of the ref. `run_id` names the run whose secrets are redacted.
    `of_archives` distils the archives of the ref into one. Raises TokenBudgetExceededError, and then writes nothing.

    The budget is in tokens, for what is read and what is written together.
    """
    request = DistillRequest(
        ref=ref,
        space=require_space(access, ref),
        budget=_check_budget(token_budget),
        texts=given,
        run_id=run_id,
        is_indexed=is_indexed,
        of_archives=of_archives,
    )

    def attempt() -> Distilled:
        distillation = prepare(context, access, request)
        return context.engine.write(access.default_tenant, distillation.write)

    return retry_on_conflict(attempt)


def _check_budget(requested: int | None) -> int:
    if requested is not None and requested < 1:
        raise InvalidInput("tokenBudget must be at least 1")
    return effective_budget(requested, MAX_TOKEN_BUDGET)


class DistillRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A checked request for a distillation; the fields are those of `distill`, and `texts` are its `given`."""

    ref: str
    space: str
    budget: int
    texts: Sequence[str] | None = None
    run_id: str | None = None
    is_indexed: bool = True
    of_archives: bool = False


def prepare_scheduled(
    context: Context, access: Access, ref: str, token_budget: int | None
) -> Distillation:
    """Prepare a distillation that the caller writes in a unit of work, together with the claim of its schedule."""
    space, budget = require_space(access, ref), _check_budget(token_budget)
    return prepare(context, access, DistillRequest(ref=ref, space=space, budget=budget))


def prepare(context: Context, access: Access, request: DistillRequest) -> Distillation:
    """Read the sources and distil them. Raises TokenBudgetExceededError.

    The result holds the positions of the store by which `write` notices changes.
    """
    tenant, now = access.default_tenant, context.clock()
    with context.engine.open_snapshot(tenant) as snapshot:
        seq = snapshot.find_last_change()
        entries_by_id = _load_candidates(context, snapshot, request, now)
        run = None if request.run_id is None else runs.load(snapshot, request.run_id)
    if run is not None:
        context.secrets.require(run.key, run.secrets)
    candidates = list(entries_by_id.values())
    notes, expires = _select_sources(candidates, request, now)
    key = None if run is None else run.key
    chosen_notes, content, tokens_used = _distill_notes(context, notes, request, key)
    checksum = hashlib.sha256(content.encode()).hexdigest()
    with context.engine.open_snapshot(tenant) as snapshot:
        sources = []
        if request.texts is None:
            sources = [
                get_source_name(snapshot, entries_by_id[note.name][0]) for note in chosen_notes
            ]
    run_id = runs.new_run_id()
    tag = f"{ARCHIVE_TAG}sha256:{checksum}"
    tags = (tag, *build_provenance_tags(run_id, sources))
    draft = Draft(content=content, tags=tags, expires=expires)
    archives = [entry for _, entry in candidates if is_archive(entry["tags"])]
    existing = next((entry for entry in archives if tag in entry["tags"]), None)
    new_entry = None
    if existing is None:
        new_entry = memory.prepare(context, tenant, request.space, draft, now, sources=sources)
    chosen_ids = {note.name for note in chosen_notes}
    return Distillation(
        access=access,
        request=request,
        run_id=run_id,
        now=now,
        change_seq=seq,
        rests_on=tuple(
            version.version_id
            for version, entry in candidates
            if entry["id"] in chosen_ids or is_archive(entry["tags"])
        ),
        archives=tuple(archives),
        existing=existing,
        new=new_entry,
        checksum=checksum,
        source_count=len(chosen_notes),
        tokens_used=tokens_used,
    )


def _load_candidates(
    context: Context, snapshot: Snapshot, request: DistillRequest, now: Instant
) -> dict[str, EntryVersion]:
    """Return the entries of the ref by id, archives included."""
    if request.texts is None and not request.of_archives:
        entries = load_all_entries(context, snapshot, request.space, now)
    else:
        entries = load_entries(snapshot, request.space, now)
    entries_by_id: dict[str, EntryVersion] = {}
    for version, entry in entries:
        # The first wins: an entry of openwop comes before a memory of another standard with the same id.
        entries_by_id.setdefault(entry["id"], (version, entry))
    return entries_by_id


class Distillation(msgspec.Struct, frozen=True, kw_only=True):
    """A prepared distillation, to be written in a unit of work."""

    access: Access
    request: DistillRequest
    run_id: str
    now: Instant
    # The position of the change feed before the sources were read.
    change_seq: int
    # The versions that must still be current: the sources, and all archives of the ref.
    rests_on: tuple[int, ...]
    archives: tuple[Entry, ...]
    # The archive with the same content, if there is one; then there is no new entry.
    existing: Entry | None
    new: memory.NewEntry | None
    checksum: str
    source_count: int
    tokens_used: int

    def write(self, unit: Unit) -> Distilled:
        """Write the archive, the index and the log. Raises Conflict if the sources or the archives have changed."""
        self._require_unchanged(unit)
        request, now = self.request, self.now
        archive, archives = self.existing, self.archives
        if self.new is not None:
            archive = self.new.entry
            archives = (*archives, archive)
            memory.append(unit, self.new, now)
        assert archive is not None
        run = runs.begin(
            unit,
            workflow_id=f"{runs.HOST_WORKFLOW}distillation",
            now=now,
            run_id=self.run_id,
            access=self.access,
        )
        index = None
        if request.is_indexed:
            index = workspace.list_archives(unit, run.run_id, request.ref, archives, now)
        payload = {
            "memoryRef": request.ref,
            "outputId": archive["id"],
            "sourceCount": max(1, self.source_count),
            "trigger": "host-managed",
            "byteSize": len(archive["content"].encode()),
            "distillation": {
                "tokenBudget": request.budget,
                "tokensUsed": self.tokens_used,
                "indexUpdated": index is not None,
            },
        }
        event = runs.emit(unit, run.run_id, events.MEMORY_COMPACTED, payload, now=now)
        run = runs.finish(unit, run, now=now)
        result = f"{self.source_count} sources, {self.tokens_used} of {request.budget} tokens"
        audit_run(unit, self.access, "distill", request.space, now, result)
        return Distilled(run=run, event=event, entry=archive, checksum=self.checksum, index=index)

    def _require_unchanged(self, unit: Unit) -> None:
        """Raise Conflict if a source or an archive was changed or added since the sources were read."""
        if unit.count_live(self.rests_on) < len(self.rests_on):
            raise Conflict("the entries changed while they were distilled; try again")
        changed_ids = unit.list_changed_in_space(self.request.space, self.change_seq)
        if len(changed_ids) > _CHANGES_LIMIT or any(
            _is_archive_version(version) for version in unit.load_versions(changed_ids)
        ):
            # The index must list an archive that another distillation wrote in the meantime.
            raise Conflict("the archives changed meanwhile; try again")


def _is_archive_version(version: Version) -> bool:
    is_readable = not version.state.erased and is_intact(version)
    return is_readable and port_of(version.document.standard).is_archive(version.document)


def _select_sources(
    current: Sequence[EntryVersion], request: DistillRequest, now: Instant
) -> tuple[list[MemoryNote], Instant]:
    """Return the notes to distil, and the expiry of the archive."""
    expires = Instant(now + ARCHIVE_RETENTION_DAYS * DAY_MS)
    if request.texts is not None:
        return [
            MemoryNote(name=f"source-{number:06d}", text=text, at=0)
            for number, text in enumerate(request.texts)
        ], expires
    sources = []
    for version, entry in current:
        if is_archive(entry["tags"]) != request.of_archives:
            continue
        if not request.of_archives:
            # An entry that ends before the archive would live on in it.
            if (version.state.expires or expires) >= expires:
                sources.append((version, entry))
        else:
            sources.append((version, {**entry, "content": _strip_head(entry["content"])}))
    if request.of_archives:
        # An archive of archives ends with the first of them.
        ends = [version.state.expires for version, _ in sources]
        expires = min([expires, *(end for end in ends if end is not None)])
    # Every note has one weight: an archive depends on its sources, and not on how often each was used.
    return [replace(note, weight=1.0) for note in build_notes(sources)], expires


def _strip_head(archive: str) -> str:
    """Return the text of an archive without the heading and the line about its sources."""
    return archive.split("\n\n", 2)[-1]


def _distill_notes(
    context: Context, notes: Sequence[MemoryNote], request: DistillRequest, key: RunKey | None
) -> tuple[list[MemoryNote], str, int]:
    """Return the newest notes that fit into the budget, oldest first, their archive, and the tokens of both together.

    The tokens of the archive's head come off the budget first. Of the remaining ones, _OUTPUT_SHARE is reserved for the
    summary; notes are read until the rest is used up. Raises TokenBudgetExceededError.
    """
    from memoranda.consolidation.text import summary

    count, budget = context.cal.counter.count, request.budget
    # The head names the number of sources, so the one for all notes is the longest.
    head_tokens = count(_render_archive(request.ref, budget, notes, "\n"))
    available = budget - head_tokens
    reading_budget = available - int(available * _OUTPUT_SHARE)
    if available < int(bool(notes)):
        raise TokenBudgetExceededError(budget, head_tokens + 2 * _smallest(notes, count))
    chosen_notes: list[MemoryNote] = []
    source_tokens = 0
    for note in sorted(notes, key=lambda note: (-note.at, note.name)):
        tokens = count(note.text)
        if source_tokens + tokens <= reading_budget:
            # Redacted before it is summarized, so that the tokens that are counted are those that are written.
            text = context.secrets.redact_text(note.text, key, "source")
            chosen_notes.append(replace(note, text=text))
            source_tokens += tokens
    if notes and not chosen_notes:
        raise TokenBudgetExceededError(budget, head_tokens + 2 * _smallest(notes, count))
    summary_text, smallest_tokens = "", 0
    if chosen_notes:
        from memoranda.consolidation.text.corpus import Corpus

        result = summary.summarize(
            Corpus(chosen_notes),
            budget_tokens=available - source_tokens,
            now=max(note.at for note in chosen_notes),
            count=count,
        )
        summary_text, smallest_tokens = result.text, result.smallest_tokens
    ordered_notes = sorted(chosen_notes, key=lambda note: (note.at, note.name))
    archive = _render_archive(request.ref, budget, ordered_notes, summary_text)
    content = context.secrets.redact_text(archive, key, "archive")
    tokens_used = source_tokens + count(content)
    if tokens_used > budget or (chosen_notes and not summary_text):
        minimum = max(tokens_used, source_tokens + head_tokens + smallest_tokens)
        raise TokenBudgetExceededError(budget, minimum)
    return ordered_notes, content, tokens_used


def _smallest(notes: Sequence[MemoryNote], count: TokenCounter) -> int:
    """Return the tokens of the shortest note; 0 without notes."""
    return min((count(note.text) for note in notes), default=0)


def _render_archive(ref: str, budget: int, notes: Sequence[MemoryNote], text: str) -> str:
    """Return the content of an archive; without a time, so that it depends on sources and budget alone."""
    digest = hashlib.sha256()
    for note in notes:
        digest.update(
            f"{note.name}\x00{note.at}\x00".encode()
            + note.text.encode("utf-8", "surrogatepass")
            + b"\x00"
        )
    head = f"# Distilled from {ref}\n\n{len(notes)} sources, sha256:{digest.hexdigest()}, budget {budget} tokens\n"
    return f"{head}\n{text}\n" if text else head


# --- consolidation -------------------------------------------------------------------------------------------


def consolidate(
    context: Context, access: Access, ref: str, *, trigger: str = "on-demand"
) -> Consolidated:
    """Replace the duplicates in a ref, and the entries that a later one contradicts. A second run changes nothing.

    Entries with an expiry stay as they are: the entry in their place, or the one that they replace, would end at
    another time.

    `trigger` names what started it, for the log.
    """
    space = require_space(access, ref)
    return retry_on_conflict(lambda: _consolidate(context, access, ref, space, trigger))


def _consolidate(
    context: Context, access: Access, ref: str, space: str, trigger: str
) -> Consolidated:
    """Consolidate a ref once. Raises Conflict if the entries change before the result is written."""
    now, tenant = context.clock(), access.default_tenant
    entries = _load_replaceable(context, tenant, space, now)
    versions = {entry["id"]: version for version, entry in entries}
    replacements, strengthened, disputed = _plan(build_notes(entries))
    payload: dict[str, object] = {
        "memoryRef": ref,
        "inputCount": len(entries),
        "outputCount": len(entries) - len(replacements),
        "trigger": trigger,
    }
    if replacements:
        payload["mergedIds"] = [step["id"] for step in replacements][: events.MAX_IDS]
    record = json_text.dump({"space": space, "taken": replacements})
    # Pairs of a replaced version and the one in its place.
    replaced = [
        (versions[step["id"]].version_id, versions[step["by"]].version_id) for step in replacements
    ]
    in_doubt = {name for pair in disputed for name in pair}
    source_ids = {version_id for pair in replaced for version_id in pair}
    source_ids |= {versions[name].version_id for name in in_doubt}

    def work(unit: Unit) -> Consolidated:
        require_unchanged(unit, sorted(source_ids))
        unit.supersede(replaced, now=now)
        for step in replacements:
            note_replaced(unit, step["by"], (versions[step["id"]].version_id,))
        for name, count in strengthened.items():
            for _ in range(count):
                unit.add_feedback(versions[name], "followed", "consolidation", now=now)
        for name in sorted(in_doubt):
            unit.flag_for_review(versions[name], needs_review=True)
        event = (events.MEMORY_CONSOLIDATED, payload)
        run, logged = runs.host_run(unit, "consolidation", now, event, access=access)
        if replacements:
            unit.put_item(UNDO_RECORDS, run.run_id, record)
        result = f"{len(replacements)} of {len(entries)} replaced"
        audit_run(unit, access, "consolidate", space, now, result)
        return Consolidated(
            run=run,
            event=logged[0],
            taken=tuple(replacements),
            contradictions=tuple(disputed),
            strengthened=strengthened,
        )

    return context.engine.write(tenant, work)


def _plan(
    notes: Sequence[MemoryNote],
) -> tuple[list[dict[str, str]], dict[str, int], list[tuple[str, str]]]:
    """Return the replacements, the number of duplicates that each remaining note replaces, and the contradictions.

    Rounds are repeated until one finds nothing to replace, so that a second run finds nothing either.
    """
    replacements: dict[str, dict[str, str]] = {}
    strengthened: dict[str, int] = {}
    disputed: list[tuple[str, str]] = []
    remaining = list(notes)
    for _ in range(_ROUNDS_LIMIT):
        of_round, disputed = _plan_round(remaining, strengthened)
        if not of_round:
            break
        replacements |= of_round
        remaining = [note for note in remaining if note.name not in of_round]
    return (
        _resolve_chains(replacements),
        {name: count for name, count in strengthened.items() if name not in replacements},
        disputed,
    )


def _plan_round(
    notes: Sequence[MemoryNote], strengthened: dict[str, int]
) -> tuple[dict[str, dict[str, str]], list[tuple[str, str]]]:
    """Return the replacements by replaced note, and the contradictions of a round; count duplicates in `strengthened`.

    A note is replaced only by one that has all its tags. Of two contradicting notes the earlier is replaced if it makes
    no other statement; otherwise both stay and are returned as a contradiction.
    """
    from memoranda.consolidation.text import claims, similar
    from memoranda.consolidation.text.corpus import Corpus

    corpus = Corpus(notes)
    conflicts = claims.find_conflicts(corpus)
    replacements: dict[str, dict[str, str]] = {}
    newest_duplicate: dict[str, MemoryNote] = {}
    for group in similar.group_duplicates(corpus):
        # The newest stays, because its time says when the statement was made last.
        newest = max(group, key=lambda note: (note.at, note.name))
        for note in group:
            newest_duplicate[note.name] = newest
            if note.name != newest.name and _has_all_tags(newest, note):
                replacements[note.name] = {
                    "id": note.name,
                    "by": newest.name,
                    "why": "says the same",
                }
                strengthened[newest.name] = strengthened.get(newest.name, 0) + 1
    sentence_counts = Counter(sentence.note.name for sentence in corpus.sentences)
    # A dictionary as an ordered set.
    disputed: dict[tuple[str, str], None] = {}
    for conflict in conflicts:
        sides = [
            newest_duplicate.get(claim.note.name, claim.note)
            for claim in (conflict.earlier, conflict.later)
        ]
        first_note, second_note = sorted(sides, key=lambda note: (note.at, note.name))
        if (
            first_note.name in replacements
            or second_note.name in replacements
            or first_note.name == second_note.name
        ):
            continue
        is_single_statement = sentence_counts[first_note.name] == 1
        if (
            second_note.at > first_note.at
            and is_single_statement
            and _has_all_tags(second_note, first_note)
        ):
            replacements[first_note.name] = {
                "id": first_note.name,
                "by": second_note.name,
                "why": "overtaken by a later statement",
            }
        else:
            disputed[first_note.name, second_note.name] = None
    return replacements, list(disputed)


def _has_all_tags(note: MemoryNote, replaced: MemoryNote) -> bool:
    """Return True if a note has all tags of another, so that no list by tag loses the statement."""
    return {tag for tag in replaced.tags if not tag.startswith(_RESULT_PREFIXES)} <= set(note.tags)


def _resolve_chains(replacements: dict[str, dict[str, str]]) -> list[dict[str, str]]:
    """Return the replacements by name, each by an entry that stays; the values are changed in place."""
    for step in replacements.values():
        while step["by"] in replacements:
            step["by"] = replacements[step["by"]]["by"]
    return [replacements[name] for name in sorted(replacements)]
