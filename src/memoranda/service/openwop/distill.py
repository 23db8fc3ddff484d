"""Compaction, distillation and consolidation of a memoryRef (openwop): deterministic, extractive, on record.

All three read one ref of one tenant, write through the same redaction as a fresh put (SR-1 carry-forward), and log
what they did in a run of the host's own. Compaction puts one entry in the place of many, with all that they say.
Distillation leaves the entries alone and makes an archive of them within a budget of tokens, the same bytes for the
same sources and budget. Consolidation takes out what is said twice and what a later entry has overtaken. Compaction and
consolidation can be undone.
"""

from __future__ import annotations

import hashlib
from collections import Counter as Counting
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from memoranda.consolidation.text.note import MemoryNote, TokenCounter
from memoranda.encoding import json_text
from memoranda.errors import Conflict, InvalidInput, WorkflowError
from memoranda.model.instant import DAY_MS, Instant, parse_instant
from memoranda.model.memory import Version
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, try_again
from memoranda.service.core.lineage import note_replaced, source_name
from memoranda.service.core.views import holds
from memoranda.service.openwop import memory, runs, workspace
from memoranda.service.openwop.passes import (
    entries,
    entries_and_others,
    notes_of,
    provenance_tags,
    record_pass,
    replaceable,
    require_free,
    space_in,
)
from memoranda.service.openwop.runs import PASSES, Run
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
from memoranda.storage.engine.contract import Unit

# A context window's part that a digest of a ref may take, read and written together.
MAX_TOKEN_BUDGET: Final = 16_000
ARCHIVE_RETENTION_DAYS: Final = 365
# What a digest may take of a budget that also pays for reading.
_OUTPUT_SHARE: Final = 0.25
# Half of what an entry may have: redaction may make a text longer.
_COMPACTED_BYTES_LIMIT: Final = MAX_CONTENT_BYTES // 2
# Tags that a pass gives to what it makes.
_OURS: Final = (mapping.COMPACTED_PREFIX, mapping.DERIVED_PREFIX)
# So many changes of others are looked at in a unit of work.
_CHANGES_LIMIT: Final = 100


class TokenBudgetExceededError(WorkflowError):
    """The budget is too small for even one statement."""

    def __init__(self, budget: int, minimum: int) -> None:
        super().__init__(
            f"a budget of {budget} tokens is too small; {minimum} are needed",
            openwop_code=TOKEN_BUDGET_EXCEEDED,
            details={"budget": budget, "minimumRequired": minimum},
        )
        self.budget, self.minimum = budget, minimum


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction made."""

    run: Run
    event: Event
    entry: Entry


class Distilled(msgspec.Struct, frozen=True, kw_only=True):
    """What a distillation made."""

    run: Run
    event: Event
    entry: Entry
    checksum: str
    index: dict[str, Any] | None


class Consolidated(msgspec.Struct, frozen=True, kw_only=True):
    """What a consolidation did, and why."""

    run: Run
    event: Event
    # For each entry that was taken out: which one stands for it now, and why.
    taken: tuple[dict[str, str], ...] = ()
    contradictions: tuple[tuple[str, str], ...] = ()
    strengthened: dict[str, int] = msgspec.field(default_factory=dict)


# --- compaction ----------------------------------------------------------------------------------------------


def compact(context: Context, access: Access, ref: str) -> Compacted:
    """Put one entry in the place of the entries of a ref: all that they say, each once, in their order; can be undone.

    What ends stays by itself, so that it ends when it should, and so does what is on legal hold. What has no room in
    one entry, the newest, stays as it is.
    """
    space = space_in(access, ref)
    return try_again(lambda: _compact(context, access, ref, space))


def _compact(context: Context, access: Access, ref: str, space: str) -> Compacted:
    now, tenant = context.clock(), access.default_tenant
    sources = _lasting(context, tenant, space, now)
    if not sources:
        raise InvalidInput("memoryRef: there is nothing to compact")
    sources, text = _joined(sources)
    ids = [entry["id"] for _, entry in sources]
    labels = list(
        dict.fromkeys(tag for _, entry in sources for tag in entry["tags"] if ":" not in tag)
    )[:20]
    run_id = runs.new_run_id()
    draft = context.secrets.redacted(
        Draft(content=text, tags=(*provenance_tags(run_id, ids), *labels)), None
    )
    # It is as old as its newest source.
    created = max(parse_instant(entry["createdAt"]) for _, entry in sources)
    new = memory.prepare(context, tenant, space, draft, created)
    record = {"space": space, "made": new.entry["id"], "taken": []}
    payload: dict[str, Any] = {
        "memoryRef": ref,
        "outputId": new.entry["id"],
        "sourceCount": len(ids),
        "trigger": "host-managed",
        "byteSize": len(new.entry["content"].encode()),
    }
    if len(ids) <= events.MAX_LISTED_SOURCES:
        payload["sourceIds"] = ids
    replaced = [version.version_id for version, _ in sources]

    def work(unit: Unit) -> Compacted:
        require_free(unit, replaced)
        version = memory.append(unit, new, now)
        unit.supersede([(version_id, version.version_id) for version_id in replaced], now=now)
        note_replaced(unit, new.entry["id"], replaced)
        run, logged = runs.host_run(
            unit, "compaction", now, (events.MEMORY_COMPACTED, payload), run_id=run_id
        )
        unit.put_item(PASSES, run.run_id, json_text.dump(record))
        record_pass(unit, access, "compact", space, now, f"{len(ids)} entries into one")
        return Compacted(run=run, event=logged[0], entry=new.entry)

    return context.engine.write(tenant, work)


def _lasting(
    context: Context, tenant: str, space: str, now: Instant
) -> list[tuple[Version, Entry]]:
    """What a pass may replace and does not end by itself, oldest first."""
    with context.engine.read(tenant) as snapshot:
        return [
            pair
            for pair in replaceable(entries(snapshot, space, now))
            if "expiresAt" not in pair[1]
        ]


def _joined(sources: Sequence[tuple[Version, Entry]]) -> tuple[list[tuple[Version, Entry]], str]:
    """The sources that fit into one entry, the oldest first, and their texts, without those that only repeat.

    An entry is left out when later ones make all of its statements: every statement is kept, in its latest wording.
    """
    from memoranda.consolidation.text.corpus import Corpus
    from memoranda.consolidation.text.sentences import join_statements

    room = _COMPACTED_BYTES_LIMIT
    fitting: list[tuple[Version, Entry]] = []
    for version, entry in sources:
        room -= len(entry["content"].encode()) + len("\n\n- ")
        if room < 0 and fitting:
            break
        fitting.append((version, entry))
    statements: dict[str, set[Hashable]] = defaultdict(set)
    for sentence in Corpus(notes_of(fitting)).sentences:
        statements[sentence.note.name].add(sentence.key)
    said: set[Hashable] = set()
    kept = []
    for _, entry in reversed(fitting):
        # What has no statements, such as a list of numbers, is told apart by its text.
        mine = statements.get(entry["id"]) or {entry["content"]}
        if not mine <= said:
            said |= mine
            kept.append(entry["content"].strip("\n"))
    kept.reverse()
    if any("\n" in text for text in kept):
        return fitting, "\n\n".join(kept)
    return fitting, join_statements(kept)


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
    """Make an archive of a ref within a budget of tokens; atomic: a budget that cannot be met writes nothing.

    `given` are texts to distil instead of what the ref has. `run_id` names the run whose secrets are redacted.
    `of_archives` distils the archives of the ref again, into one.
    """
    asked = _Asked(
        ref=ref,
        space=space_in(access, ref),
        budget=_budget(token_budget),
        given=given,
        run_id=run_id,
        is_indexed=is_indexed,
        of_archives=of_archives,
    )

    def attempt() -> Distilled:
        made = prepare(context, access, asked)
        return context.engine.write(access.default_tenant, made.write)

    return try_again(attempt)


def _budget(requested: int | None) -> int:
    if requested is not None and requested < 1:
        raise InvalidInput("tokenBudget must be at least 1")
    return effective_budget(requested, MAX_TOKEN_BUDGET)


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A distillation that is to be made."""

    ref: str
    space: str
    budget: int
    given: Sequence[str] | None = None
    run_id: str | None = None
    is_indexed: bool = True
    of_archives: bool = False


def prepare_scheduled(
    context: Context, access: Access, ref: str, token_budget: int | None
) -> Distillation:
    """A distillation for somebody else's unit of work: what says that it was done commits with it."""
    return prepare(
        context, access, _Asked(ref=ref, space=space_in(access, ref), budget=_budget(token_budget))
    )


def prepare(context: Context, access: Access, asked: _Asked) -> Distillation:
    """Read and distil. Raises TokenBudgetExceededError."""
    tenant, now = access.default_tenant, context.clock()
    with context.engine.read(tenant) as snapshot:
        seq = snapshot.find_last_change()
        if asked.given is None and not asked.of_archives:
            there = entries_and_others(context, snapshot, asked.space, now)
        else:
            there = entries(snapshot, asked.space, now)
        run = None if asked.run_id is None else runs.load(snapshot, asked.run_id)
    if run is not None:
        context.secrets.require(run.key, run.secrets)
    named: dict[str, tuple[Version, Entry]] = {}
    for version, entry in there:
        # A key that somebody chose may be the id of an entry, which then is the one that is meant.
        named.setdefault(entry["id"], (version, entry))
    found = list(named.values())
    notes, expires = _sources(found, asked, now)
    key = None if run is None else run.key
    chosen, content, used = _within(context, notes, asked, key)
    checksum = hashlib.sha256(content.encode()).hexdigest()
    with context.engine.read(tenant) as snapshot:
        sources = []
        if asked.given is None:
            sources = [source_name(snapshot, named[note.name][0]) for note in chosen]
    run_id = runs.new_run_id()
    tag = f"{ARCHIVE_TAG}sha256:{checksum}"
    draft = Draft(content=content, tags=(tag, *provenance_tags(run_id, sources)), expires=expires)
    archives = [entry for _, entry in found if is_archive(entry["tags"])]
    known = next((entry for entry in archives if tag in entry["tags"]), None)
    read = {note.name for note in chosen}
    return Distillation(
        access=access,
        asked=asked,
        run_id=run_id,
        now=now,
        change_seq=seq,
        rests_on=tuple(
            version.version_id
            for version, entry in found
            if entry["id"] in read or is_archive(entry["tags"])
        ),
        archives=tuple(archives),
        known=known,
        new=None
        if known is not None
        else memory.prepare(context, tenant, asked.space, draft, now, sources=sources),
        checksum=checksum,
        source_count=len(chosen),
        tokens_used=used,
    )


class Distillation(msgspec.Struct, frozen=True, kw_only=True):
    """A distillation that was made and is to be written."""

    access: Access
    asked: _Asked
    run_id: str
    now: Instant
    # What it was made from, and where the change feed was.
    change_seq: int
    rests_on: tuple[int, ...]
    # The archives that there are; `known` is one that says the same already.
    archives: tuple[Entry, ...]
    known: Entry | None
    new: memory.New | None
    checksum: str
    source_count: int
    tokens_used: int

    def write(self, unit: Unit) -> Distilled:
        """Write it in a unit of work. Raises Conflict when what it was made from has changed."""
        self._require_unmoved(unit)
        asked, now = self.asked, self.now
        made = self.known
        if self.new is not None:
            made = self.new.entry
            memory.append(unit, self.new, now)
        assert made is not None
        run = runs.begin(
            unit, workflow_id=f"{runs.HOST_WORKFLOW}distillation", now=now, run_id=self.run_id
        )
        archives = self.archives if made is self.known else (*self.archives, made)
        index = (
            workspace.list_archives(unit, run.run_id, asked.ref, archives, now)
            if asked.is_indexed
            else None
        )
        payload = {
            "memoryRef": asked.ref,
            "outputId": made["id"],
            "sourceCount": max(1, self.source_count),
            "trigger": "host-managed",
            "byteSize": len(made["content"].encode()),
            "distillation": {
                "tokenBudget": asked.budget,
                "tokensUsed": self.tokens_used,
                "indexUpdated": index is not None,
            },
        }
        event = runs.emit(unit, run.run_id, events.MEMORY_COMPACTED, payload, now=now)
        run = runs.finish(unit, run, now=now)
        told = f"{self.source_count} sources, {self.tokens_used} of {asked.budget} tokens"
        record_pass(unit, self.access, "distill", asked.space, now, told)
        return Distilled(run=run, event=event, entry=made, checksum=self.checksum, index=index)

    def _require_unmoved(self, unit: Unit) -> None:
        if unit.count_live(self.rests_on) < len(self.rests_on):
            raise Conflict("the entries changed while they were distilled; try again")
        changed = unit.list_changed_in_space(self.asked.space, self.change_seq)
        if len(changed) > _CHANGES_LIMIT or any(
            _is_archive_version(each) for each in unit.load_versions(changed)
        ):
            # The index has to name what another pass made meanwhile.
            raise Conflict("the archives changed meanwhile; try again")


def _with_body(entry: Entry) -> Entry:
    bare = entry.copy()
    bare["content"] = _body(entry["content"])
    return bare


def _is_archive_version(version: Version) -> bool:
    is_readable = not version.state.erased and holds(version)
    return is_readable and port_of(version.document.standard).is_archive(version.document)


def _sources(
    current: Sequence[tuple[Version, Entry]], asked: _Asked, now: Instant
) -> tuple[list[MemoryNote], Instant]:
    """What is distilled, and when the archive ends."""
    expires = Instant(now + ARCHIVE_RETENTION_DAYS * DAY_MS)
    if asked.given is not None:
        return [
            MemoryNote(name=f"source-{place:06d}", text=text, at=0)
            for place, text in enumerate(asked.given)
        ], expires
    found = [pair for pair in current if is_archive(pair[1]["tags"]) == asked.of_archives]
    if asked.of_archives:
        # What is made of archives ends with the first of them.
        ends = [version.state.expires for version, _ in found if version.state.expires is not None]
        told = [(version, _with_body(entry)) for version, entry in found]
        return [replace(note, weight=1.0) for note in notes_of(told)], min([expires, *ends])
    # What ends before the archive does would live on in it.
    lasting = [
        (version, entry)
        for version, entry in found
        if (version.state.expires or expires) >= expires
    ]
    # How often one was of use is not in the sources, and the same sources give the same archive.
    return [replace(note, weight=1.0) for note in notes_of(lasting)], expires


def _body(archive: str) -> str:
    """What an archive says, without its head."""
    return archive.split("\n\n", 2)[-1]


def _within(
    context: Context, notes: Sequence[MemoryNote], asked: _Asked, key: RunKey | None
) -> tuple[list[MemoryNote], str, int]:
    """The newest notes that can be read and digested within the budget, the archive, and what both cost."""
    from memoranda.consolidation.text.corpus import Corpus
    from memoranda.consolidation.text.summary import summarize

    count, budget = context.cal.counter.count, asked.budget
    longest = _archive(asked.ref, budget, notes, "\n")
    left = budget - count(longest)
    room = left - int(left * _OUTPUT_SHARE)
    if left < int(bool(notes)):
        raise TokenBudgetExceededError(budget, count(longest) + 2 * _cheapest(notes, count))
    chosen: list[MemoryNote] = []
    read = 0
    for note in sorted(notes, key=lambda each: (-each.at, each.name)):
        cost = count(note.text)
        if read + cost <= room:
            # Read as it may be kept, so that what is counted is what is written.
            chosen.append(
                replace(note, text=context.secrets.redacted_text(note.text, key, "source"))
            )
            read += cost
    if notes and not chosen:
        raise TokenBudgetExceededError(budget, count(longest) + 2 * _cheapest(notes, count))
    text, smallest = "", 0
    if chosen:
        found = summarize(
            Corpus(chosen), budget_tokens=left - read, now=max(n.at for n in chosen), count=count
        )
        text, smallest = found.text, found.smallest_tokens
    ordered = sorted(chosen, key=lambda each: (each.at, each.name))
    content = context.secrets.redacted_text(
        _archive(asked.ref, budget, ordered, text), key, "archive"
    )
    used = read + count(content)
    if used > budget or (chosen and not text):
        raise TokenBudgetExceededError(budget, max(used, read + count(longest) + smallest))
    return ordered, content, used


def _cheapest(notes: Sequence[MemoryNote], count: TokenCounter) -> int:
    return min((count(note.text) for note in notes), default=0)


def _archive(ref: str, budget: int, chosen: Sequence[MemoryNote], text: str) -> str:
    """The archive's own text: the same for the same sources and budget, whenever it is made."""
    digest = hashlib.sha256()
    for note in chosen:
        digest.update(
            f"{note.name}\x00{note.at}\x00".encode()
            + note.text.encode("utf-8", "surrogatepass")
            + b"\x00"
        )
    head = f"# Distilled from {ref}\n\n{len(chosen)} sources, sha256:{digest.hexdigest()}, budget {budget} tokens\n"
    return f"{head}\n{text}\n" if text else head


# --- consolidation -------------------------------------------------------------------------------------------


def consolidate(
    context: Context, access: Access, ref: str, *, trigger: str = "on-demand"
) -> Consolidated:
    """Take out of a ref what is said twice, and what a later entry has overtaken. A second pass changes nothing.

    What ends is left alone: what stands for it, or what it stands for, would end at another time.
    """
    space = space_in(access, ref)
    return try_again(lambda: _consolidate(context, access, ref, space, trigger))


def _consolidate(
    context: Context, access: Access, ref: str, space: str, trigger: str
) -> Consolidated:
    now, tenant = context.clock(), access.default_tenant
    found = _lasting(context, tenant, space, now)
    versions = {entry["id"]: version for version, entry in found}
    taken, strengthened, disputed = _plan(notes_of(found))
    payload: dict[str, Any] = {
        "memoryRef": ref,
        "inputCount": len(found),
        "outputCount": len(found) - len(taken),
        "trigger": trigger,
    }
    if taken:
        payload["mergedIds"] = [each["id"] for each in taken][: events.MAX_IDS]
    record = json_text.dump({"space": space, "taken": taken})
    replaced = [
        (versions[each["id"]].version_id, versions[each["by"]].version_id) for each in taken
    ]
    in_doubt = {name for pair in disputed for name in pair}
    rests_on = {number for pair in replaced for number in pair} | {
        versions[name].version_id for name in in_doubt
    }

    def work(unit: Unit) -> Consolidated:
        require_free(unit, sorted(rests_on))
        unit.supersede(replaced, now=now)
        for each in taken:
            note_replaced(unit, each["by"], (versions[each["id"]].version_id,))
        for name, times in strengthened.items():
            for _ in range(times):
                unit.add_feedback(versions[name], "followed", "consolidation", now=now)
        for name in sorted(in_doubt):
            unit.flag_for_review(versions[name], needs_review=True)
        run, logged = runs.host_run(
            unit, "consolidation", now, (events.MEMORY_CONSOLIDATED, payload)
        )
        if taken:
            unit.put_item(PASSES, run.run_id, record)
        record_pass(
            unit, access, "consolidate", space, now, f"{len(taken)} of {len(found)} taken out"
        )
        return Consolidated(
            run=run,
            event=logged[0],
            taken=tuple(taken),
            contradictions=tuple(disputed),
            strengthened=strengthened,
        )

    return context.engine.write(tenant, work)


def _plan(
    notes: Sequence[MemoryNote],
) -> tuple[list[dict[str, str]], dict[str, int], list[tuple[str, str]]]:
    """What to take out and what stands for it, what was corroborated how often, and what contradicts what.

    Over and over, until there is nothing more to take out: only then would a second pass find nothing.
    """
    taken: dict[str, dict[str, str]] = {}
    strengthened: dict[str, int] = {}
    disputed: list[tuple[str, str]] = []
    left = list(notes)
    for _ in range(_ROUNDS_LIMIT):
        found, disputed = _round(left, strengthened)
        if not found:
            break
        taken |= found
        left = [note for note in left if note.name not in found]
    return (
        _ending_outside(taken),
        {name: times for name, times in strengthened.items() if name not in taken},
        disputed,
    )


def _round(
    notes: Sequence[MemoryNote], strengthened: dict[str, int]
) -> tuple[dict[str, dict[str, str]], list[tuple[str, str]]]:
    from memoranda.consolidation.text.claims import find_conflicts
    from memoranda.consolidation.text.corpus import Corpus
    from memoranda.consolidation.text.similar import group_duplicates

    corpus = Corpus(notes)
    found = find_conflicts(corpus)
    taken: dict[str, dict[str, str]] = {}
    kept_for: dict[str, MemoryNote] = {}
    for group in group_duplicates(corpus):
        # The newest stays: they all say the same, and it matters when that was said last.
        kept = max(group, key=lambda note: (note.at, note.name))
        for note in group:
            kept_for[note.name] = kept
            if note.name != kept.name and _is_found_by(kept, note):
                taken[note.name] = {"id": note.name, "by": kept.name, "why": "says the same"}
                strengthened[kept.name] = strengthened.get(kept.name, 0) + 1
    sentences = Counting(sentence.note.name for sentence in corpus.sentences)
    disputed: dict[tuple[str, str], None] = {}
    for conflict in found:
        sides = [
            kept_for.get(claim.note.name, claim.note)
            for claim in (conflict.earlier, conflict.later)
        ]
        earlier, later = sorted(sides, key=lambda note: (note.at, note.name))
        if earlier.name in taken or later.name in taken or earlier.name == later.name:
            continue
        if later.at > earlier.at and sentences[earlier.name] == 1 and _is_found_by(later, earlier):
            taken[earlier.name] = {
                "id": earlier.name,
                "by": later.name,
                "why": "overtaken by a later statement",
            }
        else:
            disputed[earlier.name, later.name] = None
    return taken, list(disputed)


def _is_found_by(kept: MemoryNote, taken: MemoryNote) -> bool:
    """Whether whoever lists one by its tags gets the other as well: else it would be lost to him."""
    return {tag for tag in taken.tags if not tag.startswith(_OURS)} <= set(kept.tags)


# What a round takes out is gone for the next; after so many, what is left is left for the next pass.
_ROUNDS_LIMIT: Final = 16


def _ending_outside(taken: dict[str, dict[str, str]]) -> list[dict[str, str]]:
    """Whatever stands for something must itself stay."""
    for each in taken.values():
        while each["by"] in taken:
            each["by"] = taken[each["by"]]["by"]
    return [taken[name] for name in sorted(taken)]
