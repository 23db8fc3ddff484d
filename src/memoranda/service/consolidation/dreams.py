"""Consolidation of a namespace (OAMS section 6): runs that derive new memories, and can be previewed and undone.

A run reads every current memory of one namespace, whichever standard wrote it, except results of earlier runs. Its
results are memories of their own that cite their inputs; no input is ever rewritten, and memories of different users
are never mixed.

The stages of a run are, in this order: `_read_namespace` loads the inputs, `_find_results` runs the strategy, `_plan`
compares the results with the store, `_prepare` does what needs no writer, and `_write` writes all changes in one unit
of work.

Runs are deterministic. The id of a run is a hash of its inputs, and a result with the same digest as the stored one is
left alone, so that a second run over an unchanged store writes nothing. Results of an earlier run of the same strategy
that no longer follow are withdrawn; undoing the run restores them. A result that somebody edited belongs to them: it is
an input like any other memory, and neither a run nor an undo changes it. A refused result is not written as long as it
has the same content, unless it is requested by its key.

Order of a run: the memories of a namespace are read in a snapshot, a strategy of `consolidation/strategies` proposes
results, results that were refused before are dropped, and the rest is written in one unit together with a record of the
run. Undoing a run restores exactly what it replaced, unless somebody has changed that since.

A run may read only what its caller sees completely (`Access.sees_whole_space`), because a result would otherwise carry
hidden texts to others.
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
from memoranda.consolidation.text.note import MemoryNote, is_turn
from memoranda.errors import Conflict, ConsentViolation, InvalidInput, NamespaceNotFound, NotFound
from memoranda.model.instant import Instant, parse_instant
from memoranda.model.memory import AuditEntry, Version
from memoranda.model.selection import UPDATED, Selection
from memoranda.service.consolidation import runs
from memoranda.service.consolidation.results import (
    Input,
    ResultBuilder,
    build_input,
    cited_keys,
    date_after,
    details_of,
    excerpts,
)
from memoranda.service.consolidation.runs import (
    RecordedChange,
    build_owned_version,
    is_erased,
    location_scope,
    may_change,
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
from memoranda.service.oams.memories import AcceptedMemory
from memoranda.service.oams.views import Location
from memoranda.service.retrieve import iterate_selected
from memoranda.standards.oams import mapping, memory
from memoranda.standards.oams.consolidated import strategy_of
from memoranda.standards.oams.memory import Memory
from memoranda.standards.oams.namespace import Namespace
from memoranda.standards.oams.requests import DreamRequest
from memoranda.standards.port import port_of
from memoranda.storage.engine.contract import Snapshot, Unit

# Memories of a namespace that a run reads, all at once, into the process; a larger namespace has to be split.
INPUTS_LIMIT: Final = 100_000
# Characters of all inputs together.
INPUTS_CHARS_LIMIT: Final = 64 * 1_048_576
# Results that a request may ask for, per user of the namespace.
RESULTS_LIMIT: Final = 1_000
# Results that one run writes: a run is one transaction, for which all other writers wait.
WRITTEN_LIMIT: Final = 5_000
# Tokens of a compressed text, which must fit into one memory.
BUDGET_TOKENS_LIMIT: Final = 100_000
# The least similarity that may be asked for: below it, all memories are linked with each other.
LIKENESS_LEAST: Final = 0.05
# The namespace of the UUIDs of runs.
_RUN_SPACE: Final = uuid.UUID("5f0f7c1e-5d5a-5c39-9c55-6f2f1d7f3a11")
# Items of this kind: the fingerprint of a refused result, by its key. The text itself may have to be erased.
_REFUSED: Final = "oams dream refused"
_WRITTEN: Final = ("created", "updated")
_WITHDRAWN: Final = "withdrawn"
_CHANGING: Final = (*_WRITTEN, _WITHDRAWN)
_ERASED_REASON: Final = "a memory that it was derived from was erased"


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """One result of a run, and the change that it makes in the store."""

    memory: Memory
    # "created", "updated" or "unchanged"; "kept" if somebody edited or holds the memory under its key; or "refused".
    result: str
    # Keys and first characters of the strongest inputs.
    inputs: tuple[tuple[str, str], ...]

    def document(self) -> dict[str, Any]:
        """Return the output as JSON."""
        inputs = [{"key": key, "text": text} for key, text in self.inputs]
        return {"result": self.result, "memory": self.memory, "inputs": inputs}


class DreamRun(msgspec.Struct, frozen=True, kw_only=True):
    """A consolidation run: its results and the results that it withdraws. A dry run writes nothing."""

    run_id: str
    namespace: str
    strategy: str
    inputs: int
    # Memories that were not read, because their consent forbids to repeat their text.
    stayed: int
    outputs: tuple[Output, ...]
    # Keys of withdrawn results: those of earlier runs that no longer follow.
    taken_back: tuple[str, ...]
    # Messages for the results that cannot be stored.
    left_out: tuple[str, ...]
    is_dry: bool

    @property
    def written_count(self) -> int:
        """The number of results that are new or changed."""
        return sum(output.result in _WRITTEN for output in self.outputs)

    def document(self) -> dict[str, Any]:
        """Return the run as JSON."""
        return {
            "run_id": self.run_id,
            "namespace": self.namespace,
            "strategy": self.strategy,
            "dry_run": self.is_dry,
            "inputs": self.inputs,
            "stayed": self.stayed,
            "written": self.written_count,
            "outputs": [output.document() for output in self.outputs],
            "taken_back": list(self.taken_back),
            "left_out": list(self.left_out),
        }


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    """A checked request for a run; the fields are those of `consolidate`."""

    access: Access
    location: Location
    strategy: str
    options: Options
    writer: Writer | None
    is_dry: bool
    # If set, only results under these keys are written, and nothing is withdrawn.
    only: frozenset[str] | None = None


class _Contents(msgspec.Struct, frozen=True, kw_only=True):
    """The current memories of a namespace, as a run reads them."""

    inputs: Mapping[str, Input]
    # Results of earlier runs of this strategy, by key.
    results: Mapping[str, Memory]
    # The number of memories whose consent forbids to repeat their text.
    stayed: int
    # The position of the change feed in the snapshot that was read.
    change_seq: int


class _Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a strategy as memories, before they are compared with the store."""

    request: _Request
    run_id: str
    contents: _Contents
    accepted: tuple[AcceptedMemory, ...]
    # Messages for the results that cannot be stored.
    left_out: tuple[str, ...]
    # The inputs of all results, by memory id.
    rests_on: frozenset[int]


class _PlannedChange(msgspec.Struct, frozen=True, kw_only=True):
    """The change that a run makes under one key, if any."""

    key: str
    # The `result` of the output, or _WITHDRAWN.
    result: str
    # The memory to write; None if the stored one is only withdrawn.
    accepted: AcceptedMemory | None = None
    prior: Version | None = None
    # The memory to show in the output.
    memory: Memory
    # Set if an input of the stored result was erased: then its versions are erased too, and these remain of them.
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
    """Run a strategy over a namespace and write its results, or `only` those under the given keys.

    `is_dry` writes nothing. `writer` may reword the results. Raises ForbiddenScope unless the caller sees the whole
    namespace, NamespaceNotFound, and InvalidInput for bad options or a namespace that is too large.
    """
    location = memories.locate_namespace(access, namespace)
    if not is_dry:
        access.require("derive")
        access.require("write")
        require_whole(access, location)
    _check_options(strategy, options)
    request = _Request(
        access=access,
        location=location,
        strategy=strategy,
        options=options,
        writer=writer,
        is_dry=is_dry,
        only=None if only is None else frozenset(only),
    )
    return retry_on_conflict(lambda: _run(context, request))


def refuse(
    context: Context, access: Access, namespace: Namespace, strategy: str, keys: Collection[str]
) -> DreamRun:
    """Mark suggested results of a strategy as unwanted, so that later runs do not write them.

    Return the dry run with these results as "refused". Raises NotFound for a key without a suggestion.
    """
    access.require("derive")
    location, now = memories.locate_namespace(access, namespace), context.clock()
    require_whole(access, location)
    dry_run = consolidate(context, access, namespace, strategy, is_dry=True)
    digests = {
        output.memory["key"]: details_of(output.memory)["digest"]
        for output in dry_run.outputs
        if output.result in _WRITTEN
    }
    unknown = next((key for key in keys if key not in digests), None)
    if unknown is not None:
        raise NotFound(f"nothing is suggested under {unknown[:100]!a}")

    def work(unit: Unit) -> None:
        for key in keys:
            fingerprint = context.engine.fingerprint(location.tenant, digests[key])
            unit.put_item(_REFUSED, key, fingerprint.encode())
        entry = audit_entry(
            access,
            "oams.refuse",
            now=now,
            scope=location_scope(location),
            result=f"{len(keys)} refused",
            meta={"strategy": strategy, "keys": sorted(keys)},
        )
        unit.record_audit(entry)

    context.engine.write(location.tenant, work)
    outputs = tuple(
        replace(output, result="refused") if output.memory["key"] in keys else output
        for output in dry_run.outputs
    )
    return replace(dry_run, outputs=outputs)


def run_request(context: Context, access: Access, request: DreamRequest) -> DreamRun:
    """Run, preview or refuse, as a parsed request asks for."""
    namespace = request.namespace or memories.resolve_namespace(context, access)
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


def _check_options(strategy: str, options: Options) -> None:
    """Raise InvalidInput for an unknown strategy, or options outside of the limits."""
    strategies = (*memory.STRATEGIES, memory.STATEMENTS)
    if strategy not in strategies:
        raise InvalidInput(f"strategy must be one of {', '.join(strategies)}")
    if options.limit > RESULTS_LIMIT:
        raise InvalidInput(f"limit must be at most {RESULTS_LIMIT} results")
    if options.budget_tokens > BUDGET_TOKENS_LIMIT:
        raise InvalidInput(f"budget must be at most {BUDGET_TOKENS_LIMIT} tokens")
    if options.likeness < LIKENESS_LEAST:
        raise InvalidInput(f"likeness must be at least {LIKENESS_LEAST}")


def _run(context: Context, request: _Request) -> DreamRun:
    """Do all stages of a run. Raises Conflict if an input or a result changes meanwhile."""
    now, tenant = context.clock(), request.location.tenant
    contents = _read_namespace(context, request, now)
    findings = _find_results(context, request, contents, now)
    with context.engine.open_snapshot(tenant) as snapshot:
        plan = _plan(context, snapshot, findings, now)
        is_written = not request.is_dry and any(change.result in _CHANGING for change in plan)
        if is_written:
            plan = [_prepare(context, snapshot, request.location, change, now) for change in plan]
    run = _describe_run(findings, plan)
    if is_written:
        _write(context, findings, plan, run, now)
    else:
        context.audit_read(tenant, _audit_run(request, run, now))
    return run


# --- reading -------------------------------------------------------------------------------------------------


def _read_namespace(context: Context, request: _Request, now: Instant) -> _Contents:
    """Read the namespace in one snapshot. Raises NamespaceNotFound, or InvalidInput if it is too large."""
    location = request.location
    inputs: dict[str, Input] = {}
    results: dict[str, Memory] = {}
    chars = stayed = 0
    with context.engine.open_snapshot(location.tenant) as snapshot:
        if not snapshot.has_space(location.space):
            raise NamespaceNotFound(f"nothing was ever stored in {location.namespace}")
        for version in _visible_versions(context, request.access, snapshot, location, now):
            show = partial(oams_views.render, context, snapshot, version, location)
            answer = run_unless_damaged(version, show)
            if answer is None:
                continue
            document = answer.memory
            author_strategy = strategy_of(document)
            if author_strategy == request.strategy:
                results[document["key"]] = document
            if author_strategy is not None:
                continue
            item = _load_input(context, version, document, location)
            if item is None:
                stayed += 1
                continue
            inputs[document["key"]] = item
            chars += len(document["value"])
            if len(inputs) > INPUTS_LIMIT or chars > INPUTS_CHARS_LIMIT:
                limits = f"{INPUTS_LIMIT} memories or {INPUTS_CHARS_LIMIT} characters"
                raise InvalidInput(
                    f"{location.namespace} is too large for one run, which reads at most {limits}"
                )
        return _Contents(
            inputs=inputs, results=results, stayed=stayed, change_seq=snapshot.find_last_change()
        )


def _visible_versions(
    context: Context, access: Access, snapshot: Snapshot, location: Location, now: Instant
) -> Iterator[Version]:
    """Yield the current versions of a namespace that are intact and visible to the caller, latest update first."""
    selection = Selection(space=location.space, visibilities=access.visibilities(location.tenant))
    for version, _ in iterate_selected(snapshot, selection, UPDATED, now=now):
        if (
            not version.state.erased
            and is_intact(version)
            and oams_views.may_see(context, access, snapshot, version)
        ):
            yield version


def _load_input(
    context: Context, version: Version, document: Memory, location: Location
) -> Input | None:
    """Return a memory as an input; None if its text may not be repeated in another memory."""
    projection = project(context, version)
    if not projection.exportable or _hides_text(version):
        # UMP §2.7: this text may not leave the store, but a result made from it could.
        return None
    note = MemoryNote(
        name=document["key"],
        text=document["value"],
        at=parse_instant(document["updated_at"]),
        tags=tuple(memory.tags_of(document)),
        confidence=memory.metadata_of(document).get("confidence"),
        source=document.get("source_id") or "",
        is_turn=is_turn(projection.kind, projection.scope.session, document["value"]),
    )
    # In a namespace that a user claimed, memories of that user count as everybody's.
    user = "" if projection.scope.user == location.user else projection.scope.user
    fields = compliance.fields_of_version(version)
    return build_input(note, version.memory_id, user, version.state.expires, fields)


def _hides_text(version: Version) -> bool:
    """Return True if other readers may see only a part of the text."""
    if version.bounds is not None and version.bounds.redact:
        return True
    return port_of(version.document.standard).hides_text(version.document)


# --- finding results -----------------------------------------------------------------------------------------


def _find_results(
    context: Context, request: _Request, contents: _Contents, now: Instant
) -> _Findings:
    """Run the strategy and turn its results into memories; those that cannot be stored are left out with a message."""
    reference_time = _latest_write(contents.inputs, now)
    run_id = _derive_run_id(request, contents.inputs, reference_time)
    builder = ResultBuilder(request.location, request.strategy, run_id, contents.inputs)
    results: list[AcceptedMemory] = []
    left_out: list[str] = []
    source_ids: set[int] = set()
    for user, dream in _run_strategy(request, contents.inputs, reference_time):
        try:
            clean = _screen_secrets(context, dream)
            result = _build_result(builder, clean, user, contents, request.writer)
            accepted = memories.accept(context, request.access, result)
        except (InvalidInput, ConsentViolation) as error:
            left_out.append(error.message)
            continue
        owner = structs.replace(accepted.location, user=user or accepted.location.user)
        results.append(structs.replace(accepted, location=owner))
        source_ids.update(contents.inputs[name].memory_id for name in dream.inputs)
    if len(results) > WRITTEN_LIMIT:
        raise InvalidInput(
            f"this run would make more than {WRITTEN_LIMIT} memories; choose a smaller limit"
        )
    return _Findings(
        request=request,
        run_id=run_id,
        contents=contents,
        accepted=tuple(results),
        left_out=tuple(left_out),
        rests_on=frozenset(source_ids),
    )


def _run_strategy(
    request: _Request, inputs: Mapping[str, Input], now: int
) -> Iterator[tuple[str, Dream]]:
    """Yield the results of the strategy with their user, run for each user and for the memories of none."""
    # Strategies compile many patterns when they are imported; other commands of OAMS need none of them.
    from memoranda.consolidation.strategies.catalogue import run_strategy

    notes_by_user: dict[str, list[MemoryNote]] = defaultdict(list)
    for item in inputs.values():
        notes_by_user[item.user].append(item.note)
    for user in sorted(notes_by_user):
        notes = notes_by_user[user]
        for dream in run_strategy(request.strategy, notes, now=now, options=request.options):
            yield user, dream


def _screen_secrets(context: Context, dream: Dream) -> Dream:
    """Return a result without likely secrets: its inputs may have been stored before screening was on."""
    return replace(
        dream,
        text=screen_text(context, dream.text, "value"),
        detail=screen_fields(context, dream.detail),
    )


def _build_result(
    builder: ResultBuilder, dream: Dream, user: str, contents: _Contents, writer: Writer | None
) -> Memory:
    """Return a result as a memory, reworded if there is a writer."""
    key = builder.make_key(dream, user)
    plain_memory = builder.build_memory(dream, key, user)
    if writer is None:
        return plain_memory
    plain_digest, current = details_of(plain_memory)["digest"], contents.results.get(key)
    if current is not None and details_of(current).get("found") == plain_digest:
        # Reworded by an earlier run. A second call could give another wording, and so a needless change.
        return current
    from memoranda.consolidation.strategies.catalogue import reword

    notes = [contents.inputs[name].note for name in dream.inputs]
    reworded = reword(builder.strategy, dream, notes, writer)
    if reworded is dream:
        return plain_memory
    return builder.build_memory(reworded, key, user, plain_digest=plain_digest)


def _latest_write(inputs: Mapping[str, Input], now: Instant) -> int:
    """Return the time that a run takes as the present: the last write of an input, so that waiting changes no result.

    Writes in the future are ignored: a clock that is ahead must not turn plans into past events.
    """
    return max((item.note.at for item in inputs.values() if item.note.at <= now), default=now)


def _derive_run_id(request: _Request, inputs: Mapping[str, Input], reference_time: int) -> str:
    """Return an id that depends on the inputs, the strategy and its options only."""
    settings = (
        request.options.budget_tokens,
        request.options.least,
        request.options.likeness,
        request.options.limit,
        type(request.writer).__name__,
        reference_time,
    )
    only = "" if request.only is None else repr(sorted(request.only))
    digest = hashlib.sha256(
        f"{request.location.namespace}\x00{request.strategy}\x00{settings!r}{only}".encode()
    )
    for name in sorted(inputs):
        note = inputs[name].note
        content = (
            name,
            note.text,
            note.at,
            note.tags,
            note.confidence,
            note.source,
            inputs[name].user,
        )
        digest.update(repr(content).encode("utf-8", "surrogatepass"))
    return str(uuid.uuid5(_RUN_SPACE, digest.hexdigest()))


# --- planning ------------------------------------------------------------------------------------------------


def _plan(
    context: Context, snapshot: Snapshot, findings: _Findings, now: Instant
) -> list[_PlannedChange]:
    """Compare the results with the store: one change for each result, then the stored results to withdraw."""
    request = findings.request
    plan = [_plan_change(context, snapshot, request, item, now) for item in findings.accepted]
    if request.only is not None:
        return [change for change in plan if change.key in request.only]
    for key in sorted(findings.contents.results.keys() - {change.key for change in plan}):
        prior = memories.find_head(context, snapshot, request.location, key)
        if prior is None:
            continue
        current = oams_views.render(context, snapshot, prior, request.location).memory
        if strategy_of(current) == request.strategy and may_change(snapshot, prior, now):
            change = _PlannedChange(key=key, result=_WITHDRAWN, prior=prior, memory=current)
            plan.append(change)
    return plan


def _plan_change(
    context: Context, snapshot: Snapshot, request: _Request, accepted: AcceptedMemory, now: Instant
) -> _PlannedChange:
    """Return the change that one result makes."""
    result = accepted.memory
    prior = memories.find_head(
        context, snapshot, request.location, result["key"], or_retracted=True
    )
    current = None
    if request.only is None and _is_refused(context, snapshot, result):
        outcome = "refused"
    elif prior is None:
        outcome = "created"
    elif prior.state.verification == "retracted":
        # Somebody declared the earlier result wrong.
        outcome = "kept"
    else:
        current = oams_views.render(context, snapshot, prior, request.location).memory
        is_ours = strategy_of(current) == request.strategy
        if is_ours and details_of(current)["digest"] == details_of(result)["digest"]:
            outcome = "unchanged"
        else:
            outcome = "updated" if is_ours and may_change(snapshot, prior, now) else "kept"
    return _PlannedChange(
        key=result["key"],
        result=outcome,
        accepted=accepted,
        prior=prior,
        memory=current if current is not None and outcome == "unchanged" else result,
    )


def _is_refused(context: Context, snapshot: Snapshot, result: Memory) -> bool:
    """Return True if a result with this key and content was refused."""
    refused = snapshot.load_item(_REFUSED, result["key"])
    if refused is None:
        return False
    digest = details_of(result)["digest"]
    return refused.decode() == context.engine.fingerprint(snapshot.tenant, digest)


def _prepare(
    context: Context, snapshot: Snapshot, location: Location, change: _PlannedChange, now: Instant
) -> _PlannedChange:
    """Return a change with the version to write, so that the unit of work has no more to compute."""
    if change.result not in _CHANGING:
        return change
    current = tombstones = None
    if change.prior is not None:
        current = oams_views.render(context, snapshot, change.prior, location).memory
        if any(is_erased(context, snapshot, location, key) for key in cited_keys(current)):
            history = snapshot.iterate_history(change.prior.memory_id)
            tombstones = Tombstones(context, _ERASED_REASON, now, history)
    if change.accepted is None:
        return replace(change, tombstones=tombstones)
    # After an erasure the memory starts again, with no earlier version.
    dated = date_after(change.accepted.memory, current if tombstones is None else None)
    new_version = build_owned_version(context, change.accepted.location, dated)
    store_result = memories.build_result(dated, new_version, change.result)
    accepted = structs.replace(change.accepted, memory=dated, new=new_version, stored=store_result)
    return replace(change, accepted=accepted, memory=store_result.memory, tombstones=tombstones)


# --- writing -------------------------------------------------------------------------------------------------


def _write(
    context: Context,
    findings: _Findings,
    plan: Sequence[_PlannedChange],
    run: DreamRun,
    now: Instant,
) -> None:
    """Write all changes of a run, its record for an undo, and its audit entry in one unit of work."""
    request = findings.request

    def work(unit: Unit) -> None:
        _require_unchanged(context, unit, findings, plan)
        changes = [
            _write_change(context, unit, change, now)
            for change in plan
            if change.result in _CHANGING
        ]
        runs.record_run(
            unit, run.run_id, request.location.namespace, request.strategy, changes, now
        )
        unit.record_audit(_audit_run(request, run, now))

    context.engine.write(request.location.tenant, work)
    if any(change.tombstones is not None for change in plan):
        context.engine.scrub()


def _require_unchanged(
    context: Context, unit: Unit, findings: _Findings, plan: Sequence[_PlannedChange]
) -> None:
    """Raise Conflict if an input, or a memory that a result replaces, was changed, forgotten or held meanwhile."""
    location = findings.request.location
    changes = [change for change in plan if change.result in _CHANGING]
    priors = [change.prior for change in changes if change.prior is not None]
    changed_ids = unit.list_changed_memories(findings.contents.change_seq)
    is_changed = not changed_ids.isdisjoint(findings.rests_on) or any(
        prior.memory_id in changed_ids for prior in priors
    )
    new_keys = {
        memories.stored_name(context, location, change.key): change.key
        for change in changes
        if change.prior is None
    }
    existing = unit.filter_known_names([(mapping.STANDARD, name) for name in new_keys])
    is_key_in_use = any(
        memories.find_head(context, unit, location, new_keys[name]) is not None
        for _, name in existing
    )
    if (
        is_changed
        or is_key_in_use
        or unit.count_deletable([prior.version_id for prior in priors]) < len(priors)
    ):
        raise Conflict(
            f"{location.namespace} changes faster than it can be consolidated; try again"
        )


def _write_change(
    context: Context, unit: Unit, change: _PlannedChange, now: Instant
) -> RecordedChange:
    """Write one change and return its record for an undo."""
    prior = change.prior
    if prior is not None and change.tombstones is not None:
        _erase_history(unit, prior, change.tombstones)
        prior = None
    prior_id = None if prior is None else prior.version_id
    if change.accepted is None:
        if prior is not None:
            withdraw(unit, prior, now)
        return RecordedChange(key=change.key, new_id=None, prior_id=prior_id)
    version = memories.append_memory(context, unit, change.accepted.new, prior, now)
    return RecordedChange(key=change.key, new_id=version.version_id, prior_id=prior_id)


def _erase_history(unit: Unit, prior: Version, tombstones: Tombstones) -> None:
    """Erase every version of a memory that is not erased yet."""
    for version in unit.iterate_history(prior.memory_id):
        if not version.state.erased:
            erase_version(unit, version, tombstones)
    unit.announce("tombstoned", prior, now=tombstones.now)


def _describe_run(findings: _Findings, plan: Sequence[_PlannedChange]) -> DreamRun:
    """Return a run with its planned or written changes."""
    request, contents = findings.request, findings.contents
    outputs = tuple(
        Output(
            memory=change.memory,
            result=change.result,
            inputs=excerpts(change.memory, contents.inputs),
        )
        for change in plan
        if change.result != _WITHDRAWN
    )
    return DreamRun(
        run_id=findings.run_id,
        namespace=request.location.namespace,
        strategy=request.strategy,
        inputs=len(contents.inputs),
        stayed=contents.stayed,
        outputs=outputs,
        taken_back=tuple(change.key for change in plan if change.result == _WITHDRAWN),
        left_out=findings.left_out,
        is_dry=request.is_dry,
    )


def _audit_run(request: _Request, run: DreamRun, now: Instant) -> AuditEntry:
    would = "would be " if run.is_dry else ""
    return audit_entry(
        request.access,
        "oams.consolidate",
        now=now,
        scope=location_scope(request.location),
        result=f"{run.written_count} {would}written, {len(run.taken_back)} {would}withdrawn",
        meta={
            "strategy": run.strategy,
            "run_id": run.run_id,
            "inputs": run.inputs,
            "dry_run": run.is_dry,
        },
    )
