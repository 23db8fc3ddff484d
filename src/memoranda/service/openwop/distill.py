"""Compaction, distillation and consolidation of a memoryRef (openwop): deterministic, extractive, on record.

All three read one ref of one tenant, write through the same redaction as a fresh put (SR-1 carry-forward), and log
what they did in a run of the host's own. Compaction puts one entry in the place of many. Distillation leaves the
entries alone and makes an archive of them within a budget of tokens, the same bytes for the same sources and budget.
Consolidation takes out what is said twice and what a later entry has overtaken; it can be undone.
"""

from __future__ import annotations

import hashlib
from collections import Counter as Counting
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from memoranda.consolidation.text.claims import conflicts, read_claims
from memoranda.consolidation.text.note import Note
from memoranda.consolidation.text.reading import Reading
from memoranda.consolidation.text.similar import same_statement_groups
from memoranda.consolidation.text.summary import Counter, summarize
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, NotFound, WorkflowError
from memoranda.model.instant import DAY_MS, Instant, parse_instant
from memoranda.model.memory import Version
from memoranda.model.selection import Selection
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.views import holds, load
from memoranda.service.openwop import memory, runs, workspace
from memoranda.service.openwop.runs import Run
from memoranda.service.openwop.secrets import RunKey
from memoranda.service.retrieve import walk
from memoranda.standards.openwop import events, mapping, refs
from memoranda.standards.openwop.entry import MAX_TAG_CHARS, Draft, Entry
from memoranda.standards.openwop.problem import TOKEN_BUDGET_EXCEEDED
from memoranda.standards.openwop.runs import effective_budget
from memoranda.storage.engine import Snapshot, Unit

# A context window's part that a digest of a ref may take, read and written together.
MAX_TOKEN_BUDGET: Final = 16_000
ARCHIVE_RETENTION_DAYS: Final = 365
INDEX_PATH: Final = "MEMORY-INDEX.json"
ARCHIVE_TAG: Final = "archive:"
# What a digest may take of a budget that also pays for reading.
_OUTPUT_SHARE: Final = 0.25
_COMPACTED_SHARE: Final = 0.5
_LEAST_COMPACTED_TOKENS: Final = 256
_MAX_PROVENANCE_TAGS: Final = 100
_PASSES: Final = "openwop consolidation"


class TokenBudgetExceededError(WorkflowError):
    """The budget is too small for even one statement."""

    def __init__(self, budget: int, minimum: int) -> None:
        super().__init__(
            f"a budget of {budget} tokens is too small; {minimum} are needed",
            wop_code=TOKEN_BUDGET_EXCEEDED,
            details={"budget": budget, "minimumRequired": minimum},
        )
        self.budget, self.minimum = budget, minimum


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What a compaction made."""

    run: Run
    event: dict[str, Any]
    entry: Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Distilled:
    """What a distillation made."""

    run: Run
    event: dict[str, Any]
    entry: Entry
    checksum: str
    index: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidated:
    """What a consolidation did, and why."""

    run: Run
    event: dict[str, Any]
    # For each entry that was taken out: which one stands for it now, and why.
    taken: tuple[dict[str, str], ...] = ()
    contradictions: tuple[tuple[str, str], ...] = ()
    strengthened: dict[str, int] = field(default_factory=dict)


def _space(access: Access, ref: str) -> str:
    space = refs.resolve(ref, access.default_tenant)
    if space is None:
        raise InvalidInput("memoryRef: not one of this host")
    tenant = access.default_tenant
    access.require_scope({**access.limits, "owner": tenant, **({"project": space} if space else {})})
    return space


def entries(snapshot: Snapshot, space: str, now: Instant) -> list[tuple[Version, Entry]]:
    """The entries that were written as such and are current, oldest first."""
    return [
        (version, load(version.document.native))
        for version, _ in walk(snapshot, Selection(space=space, exportable=True), now=now)
        if version.document.standard == mapping.STANDARD and holds(version)
    ]


def _notes(found: Sequence[tuple[Version, Entry]]) -> list[Note]:
    return [
        Note(
            name=entry["id"],
            text=entry["content"],
            at=parse_instant(entry["createdAt"]),
            tags=tuple(entry["tags"]),
            weight=1.0 + version.state.followed,
        )
        for version, entry in found
    ]


def _free(found: Sequence[tuple[Version, Entry]]) -> list[tuple[Version, Entry]]:
    """What a pass may replace: no archive, and nothing on legal hold (OMS §23.2)."""
    return [(version, entry) for version, entry in found if not _is_archive(entry) and not version.state.held]


def _is_archive(entry: Entry) -> bool:
    return any(tag.startswith(ARCHIVE_TAG) for tag in entry["tags"])


def _provenance(ids: Sequence[str]) -> list[str]:
    tags = [f"{mapping.DERIVED_PREFIX}{name}" for name in ids[:_MAX_PROVENANCE_TAGS]]
    return [tag for tag in tags if len(tag) <= MAX_TAG_CHARS]


# --- compaction ----------------------------------------------------------------------------------------------


def compact(context: Context, access: Access, ref: str) -> Compacted:
    """Put one entry in the place of the entries of a ref: their statements, each once, in their order.

    What ends stays by itself, so that it ends when it should, and so does what is on legal hold.
    """
    space, now, tenant = _space(access, ref), context.clock(), access.default_tenant
    count = context.cal.counter.count

    def work(unit: Unit) -> Compacted:
        sources = [pair for pair in _free(entries(unit, space, now)) if "expiresAt" not in pair[1]]
        if not sources:
            raise InvalidInput("memoryRef: there is nothing to compact")
        ids = [entry["id"] for _, entry in sources]
        size = sum(count(entry["content"]) for _, entry in sources)
        budget = max(_LEAST_COMPACTED_TOKENS, int(size * _COMPACTED_SHARE))
        text = _digest(sources, budget, count) or sources[-1][1]["content"]
        labels = list(dict.fromkeys(tag for _, entry in sources for tag in entry["tags"] if ":" not in tag))[:20]
        draft = context.secrets.redacted(Draft(content=text, tags=(*_provenance(ids), *labels)), None)
        made = memory.append(unit, space, draft, now, replaces=tuple(version for version, _ in sources))
        payload: dict[str, Any] = {
            "memoryRef": ref,
            "outputId": made["id"],
            "sourceCount": len(ids),
            "trigger": "host-managed",
            "byteSize": len(made["content"].encode()),
        }
        if len(ids) <= events.MAX_LISTED_SOURCES:
            payload["sourceIds"] = ids
        run, logged = runs.host_run(unit, "compaction", now, (events.MEMORY_COMPACTED, payload))
        _record(unit, access, "compact", space, now, f"{len(ids)} entries into one")
        return Compacted(run=run, event=logged[0], entry=made)

    return context.engine.write(tenant, work)


def _digest(sources: Sequence[tuple[Version, Entry]], budget: int, count: Any) -> str:
    notes = _notes(sources)
    reading = Reading(notes)
    return summarize(reading, budget_tokens=budget, now=max(note.at for note in notes), count=count).text


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
    space, now = _space(access, ref), context.clock()
    budget = _budget(token_budget)
    asked = _Asked(
        ref=ref,
        space=space,
        budget=budget,
        given=given,
        run_id=run_id,
        is_indexed=is_indexed,
        of_archives=of_archives,
    )
    return context.engine.write(access.default_tenant, lambda unit: distill_in(context, access, unit, asked, now))


def _budget(requested: int | None) -> int:
    if requested is not None and requested < 1:
        raise InvalidInput("tokenBudget must be at least 1")
    return effective_budget(requested, MAX_TOKEN_BUDGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A distillation that is to be made."""

    ref: str
    space: str
    budget: int
    given: Sequence[str] | None = None
    run_id: str | None = None
    is_indexed: bool = True
    of_archives: bool = False


def distill_scheduled(
    context: Context, access: Access, unit: Unit, ref: str, token_budget: int | None, now: Instant
) -> Distilled:
    """The same in somebody else's unit of work: what says that it was done commits with it."""
    return distill_in(
        context, access, unit, _Asked(ref=ref, space=_space(access, ref), budget=_budget(token_budget)), now
    )


def distill_in(context: Context, access: Access, unit: Unit, asked: _Asked, now: Instant) -> Distilled:
    """Distil in a unit of work. Raises TokenBudgetExceededError before anything is written."""
    notes, expires = _sources(unit, asked, now)
    key = None if asked.run_id is None else (unit.tenant, asked.run_id)
    chosen, content, used = _within(context, notes, asked, key)
    checksum = hashlib.sha256(content.encode()).hexdigest()
    names = _provenance([note.name for note in chosen]) if asked.given is None else []
    draft = Draft(content=content, tags=(f"{ARCHIVE_TAG}sha256:{checksum}", *names), expires=expires)
    made = _archived(unit, asked.space, checksum, now) or memory.append(unit, asked.space, draft, now)
    run = runs.begin(unit, workflow_id=f"{runs.HOST_WORKFLOW}distillation", now=now)
    index = _index(unit, run, asked.ref, asked.space, now) if asked.is_indexed else None
    payload = {
        "memoryRef": asked.ref,
        "outputId": made["id"],
        "sourceCount": max(1, len(chosen)),
        "trigger": "host-managed",
        "byteSize": len(made["content"].encode()),
        "distillation": {"tokenBudget": asked.budget, "tokensUsed": used, "indexUpdated": index is not None},
    }
    event = runs.emit(unit, run.run_id, events.MEMORY_COMPACTED, payload, now=now)
    run = runs.finish(unit, run, now=now)
    _record(unit, access, "distill", asked.space, now, f"{len(chosen)} sources, {used} of {asked.budget} tokens")
    return Distilled(run=run, event=event, entry=made, checksum=checksum, index=index)


def _sources(unit: Unit, asked: _Asked, now: Instant) -> tuple[list[Note], Instant]:
    """What is distilled, and when the archive ends."""
    expires = Instant(now + ARCHIVE_RETENTION_DAYS * DAY_MS)
    if asked.given is not None:
        return [Note(name=f"source-{place:06d}", text=text, at=0) for place, text in enumerate(asked.given)], expires
    found = [pair for pair in entries(unit, asked.space, now) if _is_archive(pair[1]) == asked.of_archives]
    if asked.of_archives:
        # What is made of archives ends with the first of them.
        ends = [version.state.expires for version, _ in found if version.state.expires is not None]
        told = [(version, {**entry, "content": _body(entry["content"])}) for version, entry in found]
        return [replace(note, weight=1.0) for note in _notes(told)], min([expires, *ends])
    # What ends before the archive does would live on in it.
    lasting = [(version, entry) for version, entry in found if (version.state.expires or expires) >= expires]
    # How often one was of use is not in the sources, and the same sources give the same archive.
    return [replace(note, weight=1.0) for note in _notes(lasting)], expires


def _body(archive: str) -> str:
    """What an archive says, without its head."""
    return archive.split("\n\n", 2)[-1]


def _within(context: Context, notes: Sequence[Note], asked: _Asked, key: RunKey | None) -> tuple[list[Note], str, int]:
    """The newest notes that can be read and digested within the budget, the archive, and what both cost."""
    count, budget = context.cal.counter.count, asked.budget
    longest = _archive(asked.ref, budget, notes, "\n")
    left = budget - count(longest)
    room = left - int(left * _OUTPUT_SHARE)
    if left < int(bool(notes)):
        raise TokenBudgetExceededError(budget, count(longest) + 2 * _cheapest(notes, count))
    chosen: list[Note] = []
    read = 0
    for note in sorted(notes, key=lambda each: (-each.at, each.name)):
        cost = count(note.text)
        if read + cost <= room:
            # Read as it may be kept, so that what is counted is what is written.
            chosen.append(replace(note, text=context.secrets.redacted_text(note.text, key, "source")))
            read += cost
    if notes and not chosen:
        raise TokenBudgetExceededError(budget, count(longest) + 2 * _cheapest(notes, count))
    text, smallest = "", 0
    if chosen:
        found = summarize(Reading(chosen), budget_tokens=left - read, now=max(n.at for n in chosen), count=count)
        text, smallest = found.text, found.smallest_tokens
    ordered = sorted(chosen, key=lambda each: (each.at, each.name))
    content = context.secrets.redacted_text(_archive(asked.ref, budget, ordered, text), key, "archive")
    used = read + count(content)
    if used > budget or (chosen and not text):
        raise TokenBudgetExceededError(budget, max(used, read + count(longest) + smallest))
    return ordered, content, used


def _cheapest(notes: Sequence[Note], count: Counter) -> int:
    return min((count(note.text) for note in notes), default=0)


def _archive(ref: str, budget: int, chosen: Sequence[Note], text: str) -> str:
    """The archive's own text: the same for the same sources and budget, whenever it is made."""
    digest = hashlib.sha256()
    for note in chosen:
        digest.update(f"{note.name}\x00{note.at}\x00".encode() + note.text.encode("utf-8", "surrogatepass") + b"\x00")
    head = f"# Distilled from {ref}\n\n{len(chosen)} sources, sha256:{digest.hexdigest()}, budget {budget} tokens\n"
    return f"{head}\n{text}\n" if text else head


def _archived(unit: Unit, space: str, checksum: str, now: Instant) -> Entry | None:
    tag = f"{ARCHIVE_TAG}sha256:{checksum}"
    return next((entry for _, entry in entries(unit, space, now) if tag in entry["tags"]), None)


def _index(unit: Unit, run: Run, ref: str, space: str, now: Instant) -> dict[str, Any]:
    """MEMORY-INDEX.json: where the archives are."""
    known = _known_index(workspace.read(unit, INDEX_PATH))
    archives = [
        {"id": entry["id"], "checksum": next(tag for tag in entry["tags"] if tag.startswith(ARCHIVE_TAG))[8:]}
        | {"createdAt": entry["createdAt"], "expiresAt": entry.get("expiresAt")}
        for _, entry in entries(unit, space, now)
        if _is_archive(entry)
    ]
    known["refs"][ref] = archives
    content = json_text.dump_pretty(known) + "\n"
    return workspace.write(unit, INDEX_PATH, content, now=now, run_id=run.run_id, content_type="application/json")


def _known_index(kept: dict[str, Any] | None) -> dict[str, Any]:
    """What the index says so far; anybody may write the file, and what is no index is made anew."""
    try:
        known = json_text.parse(kept["content"]) if kept is not None else None
    except InvalidInput:
        known = None
    if isinstance(known, dict) and isinstance(known.get("refs"), dict):
        return known
    return {"refs": {}}


# --- consolidation -------------------------------------------------------------------------------------------


def consolidate(context: Context, access: Access, ref: str, *, trigger: str = "on-demand") -> Consolidated:
    """Take out of a ref what is said twice, and what a later entry has overtaken. A second pass changes nothing.

    What ends is left alone: what stands for it, or what it stands for, would end at another time.
    """
    space, now, tenant = _space(access, ref), context.clock(), access.default_tenant

    def work(unit: Unit) -> Consolidated:
        found = [pair for pair in _free(entries(unit, space, now)) if "expiresAt" not in pair[1]]
        versions = {entry["id"]: version for version, entry in found}
        taken, strengthened, disputed = _plan(_notes(found))
        for each in taken:
            unit.close(versions[each["id"]], successor=versions[each["by"]], valid_to=now, now=now)
            unit.announce("revised", versions[each["id"]], now=now)
        for name, times in strengthened.items():
            for _ in range(times):
                unit.feedback(versions[name], "followed", "consolidation", now=now)
        for name, other in disputed:
            unit.flag_for_review(versions[name], needs_review=True)
            unit.flag_for_review(versions[other], needs_review=True)
        payload: dict[str, Any] = {
            "memoryRef": ref,
            "inputCount": len(found),
            "outputCount": len(found) - len(taken),
            "trigger": trigger,
        }
        if taken:
            payload["mergedIds"] = [each["id"] for each in taken][: events.MAX_IDS]
        run, logged = runs.host_run(unit, "consolidation", now, (events.MEMORY_CONSOLIDATED, payload))
        if taken:
            unit.put_item(_PASSES, run.run_id, json_text.dump({"space": space, "taken": taken}))
        _record(unit, access, "consolidate", space, now, f"{len(taken)} of {len(found)} taken out")
        return Consolidated(
            run=run, event=logged[0], taken=tuple(taken), contradictions=tuple(disputed), strengthened=strengthened
        )

    return context.engine.write(tenant, work)


def _plan(notes: Sequence[Note]) -> tuple[list[dict[str, str]], dict[str, int], list[tuple[str, str]]]:
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
    return _ending_outside(taken), {name: times for name, times in strengthened.items() if name not in taken}, disputed


def _round(
    notes: Sequence[Note], strengthened: dict[str, int]
) -> tuple[dict[str, dict[str, str]], list[tuple[str, str]]]:
    reading = Reading(notes)
    found = conflicts(read_claims(reading))
    at_odds = {claim.note.name for conflict in found for claim in (conflict.earlier, conflict.later)}
    taken: dict[str, dict[str, str]] = {}
    kept_for: dict[str, Note] = {}
    for group in same_statement_groups(reading):
        # The fullest stays; where others say otherwise, the newest: it matters which of them was said last.
        is_disputed = any(note.name in at_odds for note in group)
        kept = max(group, key=lambda note: (0 if is_disputed else len(note.text), note.at, note.name))
        for note in group:
            kept_for[note.name] = kept
            if note.name != kept.name:
                taken[note.name] = {"id": note.name, "by": kept.name, "why": "says the same"}
                strengthened[kept.name] = strengthened.get(kept.name, 0) + 1
    sentences = Counting(sentence.note.name for sentence in reading.sentences)
    disputed: dict[tuple[str, str], None] = {}
    for conflict in found:
        sides = [kept_for.get(claim.note.name, claim.note) for claim in (conflict.earlier, conflict.later)]
        earlier, later = sorted(sides, key=lambda note: (note.at, note.name))
        if earlier.name in taken or later.name in taken or earlier.name == later.name:
            continue
        if later.at > earlier.at and sentences[earlier.name] == 1:
            taken[earlier.name] = {"id": earlier.name, "by": later.name, "why": "overtaken by a later statement"}
        else:
            disputed[earlier.name, later.name] = None
    return taken, list(disputed)


# What a round takes out is gone for the next; after so many, what is left is left for the next pass.
_ROUNDS_LIMIT: Final = 16


def _ending_outside(taken: dict[str, dict[str, str]]) -> list[dict[str, str]]:
    """Whatever stands for something must itself stay."""
    for each in taken.values():
        while each["by"] in taken:
            each["by"] = taken[each["by"]]["by"]
    return [taken[name] for name in sorted(taken)]


def undo(context: Context, access: Access, run_id: str) -> int:
    """Bring back what a consolidation took out; how many entries."""
    now, tenant = context.clock(), access.default_tenant

    def work(unit: Unit) -> int:
        kept = unit.items(_PASSES).get(run_id)
        if kept is None:
            raise NotFound("no consolidation of this run that could be undone")
        done = json_text.parse(kept)
        count = 0
        for each in done["taken"]:
            version = unit.named(mapping.STANDARD, each["id"])
            if version is not None and version.state.superseded_by == each["by"] and not version.state.erased:
                unit.reopen(version)
                unit.announce("revised", version, now=now)
                count += 1
        unit.delete_item(_PASSES, run_id)
        _record(unit, access, "undo", done["space"], now, f"{count} brought back")
        return count

    return context.engine.write(tenant, work)


def _record(unit: Unit, access: Access, op: str, space: str, now: Instant, result: str) -> None:
    scope = {"owner": access.default_tenant, **({"project": space} if space else {})}
    unit.record(audit_entry(access, f"openwop.{op}", now=now, scope=scope, result=result))
