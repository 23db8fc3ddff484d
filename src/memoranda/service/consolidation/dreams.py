"""Consolidation of a namespace (OAMS section 6): dreams over what is there, dry first, explained, reversible.

A pass reads everything current in one namespace, whichever standard wrote it, except what earlier passes made. What
it makes are memories of their own that cite their inputs; no input is ever rewritten, and memories of different users
are never mixed. The same store gives the same pass: its id is made of what it read, and a result that says what an
earlier pass said stays as it is, so a second pass over an unchanged store writes nothing. Results of an earlier pass
of the same strategy that no longer follow are taken back; undoing a pass brings them again. A result that somebody
changed is theirs: it is read like any other memory, and neither a pass nor an undo touches it. What somebody refused is
not written while it says the same, unless it is asked for by its key.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import structs
from msgspec.structs import replace

from memoranda.consolidation.strategies.dream import DEFAULT_OPTIONS, Dream, Options, Writer
from memoranda.consolidation.text.note import MemoryNote
from memoranda.errors import Conflict, ConsentViolation, InvalidInput, NamespaceNotFound, NotFound
from memoranda.model.instant import Instant, parse_instant
from memoranda.model.memory import AuditEntry, Version
from memoranda.model.selection import UPDATED, Selection
from memoranda.service.consolidation import runs
from memoranda.service.consolidation.results import (
    Input,
    Maker,
    cited_keys,
    dated,
    excerpts,
    mark_of,
    protected,
)
from memoranda.service.consolidation.runs import (
    Change,
    is_erased,
    may_change,
    owned,
    place_scope,
    require_whole,
    withdraw,
)
from memoranda.service.core import compliance
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry, retry_on_conflict
from memoranda.service.core.lifecycle import Tombstones, erase_version
from memoranda.service.core.secret_screening import screen_fields, screen_text
from memoranda.service.core.views import is_intact, project, run_unless_damaged
from memoranda.service.oams import memories
from memoranda.service.oams import views as oams_views
from memoranda.service.oams.memories import Given
from memoranda.service.oams.views import Place
from memoranda.service.retrieve import walk
from memoranda.standards.oams import mapping, memory
from memoranda.standards.oams.consolidated import strategy_of
from memoranda.standards.oams.memory import Memory
from memoranda.standards.oams.namespace import Namespace
from memoranda.standards.oams.requests import DreamRequest
from memoranda.standards.port import port_of
from memoranda.storage.engine.contract import Snapshot, Unit

# A pass reads a namespace into memory; a larger one has to be split into several.
INPUTS_LIMIT: Final = 100_000
INPUTS_CHARS_LIMIT: Final = 64 * 1_048_576
# One pass is one transaction, and everybody else waits for it.
RESULTS_LIMIT: Final = 1_000
WRITTEN_LIMIT: Final = 5_000
# A compressed text must fit into one memory.
BUDGET_TOKENS_LIMIT: Final = 100_000
# Below that everything is like everything.
LIKENESS_LEAST: Final = 0.05
_RUN_SPACE: Final = uuid.UUID("5f0f7c1e-5d5a-5c39-9c55-6f2f1d7f3a11")
# What somebody did not want, by its key: a fingerprint of what it said, as the text may be erased.
_REFUSED: Final = "oams dream refused"
_WRITTEN: Final = ("created", "updated")
_TAKEN_BACK: Final = "taken back"
_CHANGING: Final = (*_WRITTEN, _TAKEN_BACK)
_ERASED_REASON: Final = "what it was consolidated from was erased"


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """One result, and what becomes of it."""

    memory: Memory
    # created, updated, unchanged; kept: somebody changed what is under its key, or it is on hold; or refused.
    result: str
    # Key and beginning of the strongest inputs.
    inputs: tuple[tuple[str, str], ...]

    def document(self) -> dict[str, Any]:
        inputs = [{"key": key, "text": text} for key, text in self.inputs]
        return {"result": self.result, "memory": self.memory, "inputs": inputs}


class DreamRun(msgspec.Struct, frozen=True, kw_only=True):
    """One pass: what it makes and takes back; nothing was written if it is dry, or if nothing is new."""

    run_id: str
    namespace: str
    strategy: str
    inputs: int
    # Memories that were not read, because their consent keeps their words as they are.
    stayed: int
    outputs: tuple[Output, ...]
    # Keys of results of earlier passes that no longer follow.
    taken_back: tuple[str, ...]
    # Why some results cannot be memories here.
    left_out: tuple[str, ...]
    is_dry: bool

    @property
    def written(self) -> int:
        """How many results are new or say something new."""
        return sum(each.result in _WRITTEN for each in self.outputs)

    def document(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "namespace": self.namespace,
            "strategy": self.strategy,
            "dry_run": self.is_dry,
            "inputs": self.inputs,
            "stayed": self.stayed,
            "written": self.written,
            "outputs": [each.document() for each in self.outputs],
            "taken_back": list(self.taken_back),
            "left_out": list(self.left_out),
        }


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A pass that somebody wants."""

    access: Access
    place: Place
    strategy: str
    options: Options
    writer: Writer | None
    is_dry: bool
    # Only what is under these keys is written, and nothing is taken back.
    only: frozenset[str] | None = None


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass reads."""

    inputs: Mapping[str, Input]
    # Results of earlier passes of this strategy, by key.
    results: Mapping[str, Memory]
    # How many were not read, because their consent keeps them as they are.
    stayed: int
    # Where the change feed was.
    change_seq: int


class _Pass(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass comes to, before it is compared with what is there."""

    asked: _Asked
    run_id: str
    found: _Found
    given: tuple[Given, ...]
    left_out: tuple[str, ...]
    # The memories that any result rests on, by their ids in the store.
    rests_on: frozenset[int]


class _Step(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done under one key."""

    key: str
    result: str
    # What is to be written; None when something is only taken back.
    given: Given | None = None
    prior: Version | None = None
    # What is shown of it.
    memory: Memory
    # Set when what is there rests on something that was erased: its own words have to go, too, and this is left.
    tombstones: Tombstones | None = None


def consolidate(
    context: Context,
    access: Access,
    namespace: Namespace,
    strategy: str,
    *,
    is_dry: bool = False,
    options: Options = DEFAULT_OPTIONS,
    writer: Writer | None = None,
    only: Collection[str] | None = None,
) -> DreamRun:
    """Run one strategy over a namespace; of what it comes to, write all, or `only` what is under these keys."""
    place = memories.place_of(access, namespace)
    if not is_dry:
        access.require("derive")
        access.require("write")
        require_whole(access, place)
    _check(strategy, options)
    keys = None if only is None else frozenset(only)
    asked = _Asked(
        access=access,
        place=place,
        strategy=strategy,
        options=options,
        writer=writer,
        is_dry=is_dry,
        only=keys,
    )
    return retry_on_conflict(lambda: _consolidate(context, asked))


def refuse(
    context: Context, access: Access, namespace: Namespace, strategy: str, keys: Collection[str]
) -> DreamRun:
    """Note that some of what a strategy comes to is not wanted, and what it comes to now. Raises NotFound."""
    access.require("derive")
    place, now = memories.place_of(access, namespace), context.clock()
    require_whole(access, place)
    run_strategy = consolidate(context, access, namespace, strategy, is_dry=True)
    digests = {
        each.memory["key"]: mark_of(each.memory)["digest"]
        for each in run_strategy.outputs
        if each.result in _WRITTEN
    }
    unknown = next((key for key in keys if key not in digests), None)
    if unknown is not None:
        raise NotFound(f"nothing is suggested under {unknown[:100]!a}")

    def work(unit: Unit) -> None:
        for key in keys:
            unit.put_item(
                _REFUSED, key, context.engine.fingerprint(place.tenant, digests[key]).encode()
            )
        meta, result = {"strategy": strategy, "keys": sorted(keys)}, f"{len(keys)} refused"
        unit.record_audit(
            audit_entry(
                access, "oams.refuse", now=now, scope=place_scope(place), result=result, meta=meta
            )
        )

    context.engine.write(place.tenant, work)
    outputs = (
        replace(each, result="refused") if each.memory["key"] in keys else each
        for each in run_strategy.outputs
    )
    return replace(run_strategy, outputs=tuple(outputs))


def requested(context: Context, access: Access, request: DreamRequest) -> DreamRun:
    """The pass that a request asks for."""
    namespace = request.namespace or memories.namespace_named(context, access)
    options = Options(
        limit=request.limit,
        budget_tokens=request.budget,
        least=request.least,
        likeness=request.likeness,
    )
    if request.refuse:
        return refuse(context, access, namespace, request.strategy, request.refuse)
    return consolidate(
        context,
        access,
        namespace,
        request.strategy,
        is_dry=request.dry_run,
        options=options,
        only=request.only,
    )


def _check(strategy: str, options: Options) -> None:
    known = (*memory.STRATEGIES, memory.STATEMENTS)
    if strategy not in known:
        raise InvalidInput(f"strategy must be one of {', '.join(known)}")
    if options.limit > RESULTS_LIMIT:
        raise InvalidInput(f"limit must be at most {RESULTS_LIMIT} results")
    if options.budget_tokens > BUDGET_TOKENS_LIMIT:
        raise InvalidInput(f"budget must be at most {BUDGET_TOKENS_LIMIT} tokens")
    if options.likeness < LIKENESS_LEAST:
        raise InvalidInput(f"likeness must be at least {LIKENESS_LEAST}")


def _consolidate(context: Context, asked: _Asked) -> DreamRun:
    now = context.clock()
    made = _made(context, asked, _read(context, asked, now), now)
    with context.engine.read(asked.place.tenant) as snapshot:
        steps = _planned(context, snapshot, made, now)
        is_written = not asked.is_dry and any(step.result in _CHANGING for step in steps)
        if is_written:
            steps = [_prepared(context, snapshot, asked.place, step, now) for step in steps]
    if is_written:
        return _applied(context, made, steps, now)
    run_strategy = _run(made, steps)
    context.audit_read(asked.place.tenant, _audited(asked, run_strategy, now))
    return run_strategy


# --- what is read --------------------------------------------------------------------------------------------


def _read(context: Context, asked: _Asked, now: Instant) -> _Found:
    place = asked.place
    inputs: dict[str, Input] = {}
    results: dict[str, Memory] = {}
    chars = stayed = 0
    with context.engine.read(place.tenant) as snapshot:
        if not snapshot.has_space(place.space):
            raise NamespaceNotFound(f"nothing was ever stored in {place.namespace}")
        for version in _versions(context, asked.access, snapshot, place, now):
            show = partial(oams_views.show, context, snapshot, version, place)
            answer = run_unless_damaged(version, show)
            if answer is None:
                continue
            shown = answer.memory
            made_by = strategy_of(shown)
            if made_by == asked.strategy:
                results[shown["key"]] = shown
            if made_by is not None:
                continue
            read = _input(context, version, shown, place)
            if read is None:
                stayed += 1
                continue
            inputs[shown["key"]] = read
            chars += len(shown["value"])
            if len(inputs) > INPUTS_LIMIT or chars > INPUTS_CHARS_LIMIT:
                most = f"{INPUTS_LIMIT} memories or {INPUTS_CHARS_LIMIT} characters"
                raise InvalidInput(
                    f"{place.namespace} is too large for one pass, which reads at most {most}"
                )
        return _Found(
            inputs=inputs, results=results, stayed=stayed, change_seq=snapshot.find_last_change()
        )


def _versions(
    context: Context, access: Access, snapshot: Snapshot, place: Place, now: Instant
) -> Iterator[Version]:
    selection = Selection(space=place.space, visibilities=access.visibilities(place.tenant))
    for version, _ in walk(snapshot, selection, UPDATED, now=now):
        if (
            not version.state.erased
            and is_intact(version)
            and oams_views.may_see(context, access, snapshot, version)
        ):
            yield version


def _input(context: Context, version: Version, shown: Memory, place: Place) -> Input | None:
    """A memory as a pass reads it; None if its words may not go into another."""
    read = project(context, version)
    if not read.exportable or _is_cut(version):
        # UMP §2.7: a result may leave this store, and these words may not.
        return None
    note = MemoryNote(
        name=shown["key"],
        text=shown["value"],
        at=parse_instant(shown["updated_at"]),
        tags=tuple(memory.tags_of(shown)),
        confidence=memory.metadata_of(shown).get("confidence"),
        source=shown.get("source_id") or "",
    )
    # The user of a claimed namespace is no stranger there.
    user = "" if read.scope.user == place.user else read.scope.user
    fields = compliance.fields_of_version(version)
    return protected(note, version.memory_id, user, version.state.expires, fields)


def _is_cut(version: Version) -> bool:
    """Whether others may see only a part of the text."""
    is_cut_earlier = version.bounds is not None and bool(version.bounds.redact)
    return is_cut_earlier or port_of(version.document.standard).hides_text(version.document)


# --- what it comes to ----------------------------------------------------------------------------------------


def _made(context: Context, asked: _Asked, found: _Found, now: Instant) -> _Pass:
    looks_from = _latest(found.inputs, now)
    run_id = _run_id(asked, found.inputs, looks_from)
    maker = Maker(asked.place, asked.strategy, run_id, found.inputs)
    given: list[Given] = []
    left_out: list[str] = []
    rests_on: set[int] = set()
    for user, each in _dreams(asked, found.inputs, looks_from):
        try:
            result = _result(maker, _screened(context, each), user, found, asked.writer)
            accepted = memories.accept(context, asked.access, result)
        except (InvalidInput, ConsentViolation) as error:
            left_out.append(error.message)
            continue
        given.append(
            structs.replace(
                accepted, place=structs.replace(accepted.place, user=user or accepted.place.user)
            )
        )
        rests_on.update(found.inputs[name].memory_id for name in each.inputs)
    if len(given) > WRITTEN_LIMIT:
        raise InvalidInput(
            f"this pass would make more than {WRITTEN_LIMIT} memories; choose a smaller limit"
        )
    return _Pass(
        asked=asked,
        run_id=run_id,
        found=found,
        given=tuple(given),
        left_out=tuple(left_out),
        rests_on=frozenset(rests_on),
    )


def _dreams(asked: _Asked, inputs: Mapping[str, Input], now: int) -> Iterator[tuple[str, Dream]]:
    """What the strategy finds in the memories of each user, and in those of none."""
    # What strategies read texts by takes a while to be made; who only lists needs none of it.
    from memoranda.consolidation.strategies.catalogue import run_strategy

    groups: dict[str, list[MemoryNote]] = defaultdict(list)
    for each in inputs.values():
        groups[each.user].append(each.note)
    for user in sorted(groups):
        for made in run_strategy(asked.strategy, groups[user], now=now, options=asked.options):
            yield user, made


def _screened(context: Context, made: Dream) -> Dream:
    """What was found, without what looks like a secret; it may have come in before anybody looked."""
    return replace(
        made,
        text=screen_text(context, made.text, "value"),
        detail=screen_fields(context, made.detail),
    )


def _result(maker: Maker, made: Dream, user: str, found: _Found, writer: Writer | None) -> Memory:
    key = maker.key(made, user)
    plain = maker.memory(made, key, user)
    if writer is None:
        return plain
    before, current = mark_of(plain)["digest"], found.results.get(key)
    if current is not None and mark_of(current).get("found") == before:
        # It was worded before: a model is not asked twice for the same, and need not answer the same.
        return current
    from memoranda.consolidation.strategies.catalogue import reword

    worded = reword(maker.strategy, made, [found.inputs[name].note for name in made.inputs], writer)
    return plain if worded is made else maker.memory(worded, key, user, found=before)


def _latest(inputs: Mapping[str, Input], now: Instant) -> int:
    """The moment a pass looks from: the last thing that was written, so that waiting alone changes nothing.

    A clock that is ahead must not make everybody's plans things of the past.
    """
    return max((each.note.at for each in inputs.values() if each.note.at <= now), default=now)


def _run_id(asked: _Asked, inputs: Mapping[str, Input], looks_from: int) -> str:
    told = asked.options
    said_to_it = (
        told.budget_tokens,
        told.least,
        told.likeness,
        told.limit,
        type(asked.writer).__name__,
        looks_from,
    )
    only = "" if asked.only is None else repr(sorted(asked.only))
    digest = hashlib.sha256(
        f"{asked.place.namespace}\x00{asked.strategy}\x00{said_to_it!r}{only}".encode()
    )
    for name in sorted(inputs):
        note = inputs[name].note
        said = (
            name,
            note.text,
            note.at,
            note.tags,
            note.confidence,
            note.source,
            inputs[name].user,
        )
        digest.update(repr(said).encode("utf-8", "surrogatepass"))
    return str(uuid.uuid5(_RUN_SPACE, digest.hexdigest()))


# --- what becomes of it --------------------------------------------------------------------------------------


def _planned(context: Context, snapshot: Snapshot, made: _Pass, now: Instant) -> list[_Step]:
    """What is to be done, compared with what is there: one step for each result, then what is taken back."""
    steps = [_step(context, snapshot, made, each, now) for each in made.given]
    if made.asked.only is not None:
        return [step for step in steps if step.key in made.asked.only]
    for key in sorted(made.found.results.keys() - {step.key for step in steps}):
        prior = memories.find(context, snapshot, made.asked.place, key)
        if prior is None:
            continue
        current = oams_views.show(context, snapshot, prior, made.asked.place).memory
        if strategy_of(current) == made.asked.strategy and may_change(snapshot, prior, now):
            steps.append(_Step(key=key, result=_TAKEN_BACK, prior=prior, memory=current))
    return steps


def _step(context: Context, snapshot: Snapshot, made: _Pass, given: Given, now: Instant) -> _Step:
    key = given.memory["key"]
    prior = memories.find(context, snapshot, made.asked.place, key, or_retracted=True)
    if made.asked.only is None and _is_refused(context, snapshot, given.memory):
        return _Step(key=key, result="refused", given=given, prior=prior, memory=given.memory)
    if prior is None:
        return _Step(key=key, result="created", given=given, memory=given.memory)
    if prior.state.verification == "retracted":
        # Somebody said that it is wrong.
        return _Step(key=key, result="kept", given=given, prior=prior, memory=given.memory)
    current = oams_views.show(context, snapshot, prior, made.asked.place).memory
    if (
        strategy_of(current) == made.asked.strategy
        and mark_of(current)["digest"] == mark_of(given.memory)["digest"]
    ):
        return _Step(key=key, result="unchanged", given=given, prior=prior, memory=current)
    is_ours = strategy_of(current) == made.asked.strategy and may_change(snapshot, prior, now)
    return _Step(
        key=key,
        result="updated" if is_ours else "kept",
        given=given,
        prior=prior,
        memory=given.memory,
    )


def _is_refused(context: Context, snapshot: Snapshot, given: Memory) -> bool:
    kept = snapshot.load_item(_REFUSED, given["key"])
    return kept is not None and kept.decode() == context.engine.fingerprint(
        snapshot.tenant, mark_of(given)["digest"]
    )


def _prepared(
    context: Context, snapshot: Snapshot, place: Place, step: _Step, now: Instant
) -> _Step:
    """A step with everything that can be read and made before the writer's turn."""
    if step.result not in _CHANGING:
        return step
    current = tombstones = None
    if step.prior is not None:
        current = oams_views.show(context, snapshot, step.prior, place).memory
        if any(is_erased(context, snapshot, place, key) for key in cited_keys(current)):
            tombstones = Tombstones(
                context, _ERASED_REASON, now, snapshot.iterate_history(step.prior.memory_id)
            )
    if step.given is None:
        return replace(step, tombstones=tombstones)
    fresh = dated(step.given.memory, current if tombstones is None else None)
    new = owned(context, step.given.place, fresh)
    stored = memories.as_stored(fresh, new, step.result)
    given = structs.replace(step.given, memory=fresh, new=new, stored=stored)
    return replace(step, given=given, memory=stored.memory, tombstones=tombstones)


def _applied(context: Context, made: _Pass, steps: Sequence[_Step], now: Instant) -> DreamRun:
    place = made.asked.place
    run_strategy = _run(made, steps)

    def work(unit: Unit) -> None:
        _require_unmoved(context, unit, made, steps)
        changes = [_take(context, unit, step, now) for step in steps if step.result in _CHANGING]
        runs.keep(unit, run_strategy.run_id, place.namespace, made.asked.strategy, changes, now)
        unit.record_audit(_audited(made.asked, run_strategy, now))

    context.engine.write(place.tenant, work)
    if any(step.tombstones is not None for step in steps):
        context.engine.scrub()
    return run_strategy


def _require_unmoved(context: Context, unit: Unit, made: _Pass, steps: Sequence[_Step]) -> None:
    """Raise Conflict if what the results rest on or replace was changed, forgotten or held while they were made."""
    place = made.asked.place
    changing = [step for step in steps if step.result in _CHANGING]
    priors = [step.prior for step in changing if step.prior is not None]
    moved = unit.list_changed_memories(made.found.change_seq)
    is_moved = not moved.isdisjoint(made.rests_on) or any(
        prior.memory_id in moved for prior in priors
    )
    new = {
        memories.name_of(context, place, step.key): step.key
        for step in changing
        if step.prior is None
    }
    known = unit.filter_known_names([(mapping.STANDARD, name) for name in new])
    is_taken = any(memories.find(context, unit, place, new[name]) is not None for _, name in known)
    if (
        is_moved
        or is_taken
        or unit.count_deletable([prior.version_id for prior in priors]) < len(priors)
    ):
        raise Conflict(f"{place.namespace} changes faster than it can be consolidated; try again")


def _take(context: Context, unit: Unit, step: _Step, now: Instant) -> Change:
    """Do a step; what is to be known to undo it."""
    prior = step.prior
    if prior is not None and step.tombstones is not None:
        _erase(unit, prior, step.tombstones)
        prior = None
    prior_id = None if prior is None else prior.version_id
    if step.given is None:
        if prior is not None:
            withdraw(unit, prior, now)
        return Change(key=step.key, written=None, before=prior_id)
    version = memories.append(context, unit, step.given.new, prior, now)
    return Change(key=step.key, written=version.version_id, before=prior_id)


def _erase(unit: Unit, prior: Version, tombstones: Tombstones) -> None:
    """Erase what is there, with its history; what is written instead begins anew."""
    for each in unit.iterate_history(prior.memory_id):
        if not each.state.erased:
            erase_version(unit, each, tombstones)
    unit.announce("tombstoned", prior, now=tombstones.now)


def _run(made: _Pass, steps: Sequence[_Step]) -> DreamRun:
    outputs = [
        Output(
            memory=step.memory, result=step.result, inputs=excerpts(step.memory, made.found.inputs)
        )
        for step in steps
        if step.result != _TAKEN_BACK
    ]
    return DreamRun(
        run_id=made.run_id,
        namespace=made.asked.place.namespace,
        strategy=made.asked.strategy,
        inputs=len(made.found.inputs),
        stayed=made.found.stayed,
        outputs=tuple(outputs),
        taken_back=tuple(step.key for step in steps if step.result == _TAKEN_BACK),
        left_out=made.left_out,
        is_dry=made.asked.is_dry,
    )


def _audited(asked: _Asked, run_strategy: DreamRun, now: Instant) -> AuditEntry:
    would = "would be " if run_strategy.is_dry else ""
    result = (
        f"{run_strategy.written} {would}written, {len(run_strategy.taken_back)} {would}taken back"
    )
    meta = {
        "strategy": run_strategy.strategy,
        "run_id": run_strategy.run_id,
        "inputs": run_strategy.inputs,
        "dry_run": run_strategy.is_dry,
    }
    scope = place_scope(asked.place)
    return audit_entry(
        asked.access, "oams.consolidate", now=now, scope=scope, result=result, meta=meta
    )
