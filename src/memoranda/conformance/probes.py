"""Probes for conformance suites of openwop: each uses the real store like a host, and returns what it observed.

A suite starts a fixture (a workflow) by its id, and reads the variables of the finished run. A probe is the program of
a fixture. Fixtures are only available if the server is started with `--seams`.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from memoranda.errors import InvalidInput, NotFound
from memoranda.model.instant import Instant
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.lineage import plan_erasure
from memoranda.service.core.memory_line import erase_line
from memoranda.service.openwop import commitments, memory, runs
from memoranda.service.openwop import distill as distillation
from memoranda.service.openwop.openwop import MEMORY_KEY
from memoranda.service.openwop.runs import Run
from memoranda.standards.openwop import redaction, refs
from memoranda.standards.openwop.entry import Draft, ListOptions
from memoranda.standards.openwop.events import Event
from memoranda.storage.engine.contract import Unit

# The tenant whose memory the cross-tenant probes try to read; it is never the caller.
OTHER_TENANT: Final = "openwop-conformance-other-tenant"
OTHER_REF: Final = "conformance/another-tenant/agent-memory"
AGENT_ID: Final = "memoranda.conformance"
SECRET_ID: Final = "conformance-test-secret"  # noqa: S105 (an id, not a secret)
# A word with "canary" in it, which a suite uses as a secret.
_CANARY: Final = re.compile(r"(?<!\S)\S*?canary\S*", re.IGNORECASE)
_BUDGET_TOKENS: Final = 40
_EXPIRES_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeHost:
    """A host with one active run, on behalf of `access`."""

    context: Context
    access: Access
    run: Run
    ref: str

    def write_entry(
        self,
        content: str,
        *tags: str,
        node_id: str | None = "probe",
        expires: Instant | None = None,
    ) -> str:
        """Write an entry as a node of the run, and return its id."""
        draft = Draft(content=content, tags=tags, expires=expires)
        entry = memory.put_entry(
            self.context,
            self.access,
            self.ref,
            draft,
            run_id=self.run.run_id,
            node_id=node_id,
            agent_id=AGENT_ID,
        )
        return str(entry["id"])

    def resolve_secret(self) -> str:
        """Return a secret, registered as resolved by the run: the configured one, or else a random one."""
        try:
            value = self.context.secrets.resolve(SECRET_ID).value
        except NotFound:
            value = f"byok-{secrets.token_urlsafe(24)}"
        self.context.secrets.register(self.run.key, SECRET_ID, value)
        return value

    def entry_variable(self, name: str, **extra: str) -> dict[str, object]:
        """Return a variable that refers to an entry."""
        return {MEMORY_KEY: {"memoryRef": self.ref, "id": name, **extra}}

    def list_variable(self, ref: str | None = None, **options: Any) -> dict[str, object]:
        """Return a variable that refers to the result of `list`."""
        return {MEMORY_KEY: {"memoryRef": ref or self.ref, "options": options}}


Variables = Mapping[str, object]
Probe = Callable[[ProbeHost], Variables]


# --- fixtures ------------------------------------------------------------------------------------------------


def probe_noop(host: ProbeHost) -> Variables:
    """Write only the summary of the session, which belongs to no node."""
    host.write_entry("A run of conformance-noop took place.", "source:run-summary", node_id=None)
    return {}


def probe_round_trip(host: ProbeHost) -> Variables:
    """Write an entry, and read it back."""
    return {
        "memoryReadback": host.entry_variable(
            host.write_entry("The probe wrote this and reads it back.", "source:probe")
        )
    }


def probe_redaction(host: ProbeHost) -> Variables:
    """Write an entry that contains a secret of the run; the host must redact it."""
    value = host.resolve_secret()
    name = host.write_entry(
        f"The deployment uses {value} for its calls.", "source:probe", f"key:{value}"
    )
    return {"memoryReadback": host.entry_variable(name)}


def probe_expiry(host: ProbeHost) -> Variables:
    """Write a valid entry and one that has already expired; the latter is only possible below the API."""
    now = host.context.clock()
    fresh = host.write_entry(
        "This one lasts for an hour.", "source:probe", expires=Instant(now + _EXPIRES_MS)
    )
    space = refs.space_of(host.ref)
    expired_draft = Draft(
        content="This one is over.", tags=("source:probe",), expires=Instant(now - 1)
    )
    gone = memory.prepare(host.context, host.access.default_tenant, space, expired_draft, now)
    host.context.engine.write(
        host.access.default_tenant, lambda unit: memory.append(unit, gone, now)
    )
    return {"memoryList": host.list_variable(), "freshId": fresh, "expiredId": gone.entry["id"]}


def probe_isolation(host: ProbeHost) -> Variables:
    """Try to read an entry of another tenant, by id and by ref."""
    foreign_entry_id = _ensure_foreign_entry(host.context)
    own_entry_id = host.write_entry("This belongs to the tenant of the run.", "source:probe")
    visible_entry = memory.get_entry(
        host.context, host.access, OTHER_REF, foreign_entry_id, run_id=host.run.run_id
    )
    probe: Any = host.list_variable(refs.qualify_ref(OTHER_REF, OTHER_TENANT))
    return {
        "ownerEntryId": own_entry_id,
        "ownerProbe": host.list_variable(),
        "crossTenantProbe": probe if visible_entry is None else [visible_entry],
    }


def probe_budget(host: ProbeHost) -> Variables:
    """List entries for a prompt within a token budget (RFC 0113)."""
    mark, value, count = (
        f"run:{host.run.run_id}",
        host.resolve_secret(),
        host.context.cal.counter.count,
    )
    _ensure_foreign_entry(host.context)
    ids = [
        host.write_entry("Deployments go out on Tuesdays.", mark),
        host.write_entry("The gate must be green before a handoff.", mark),
        host.write_entry(f"Calls are signed with {value}.", mark),
    ]
    too_long_id = host.write_entry("This alone is over every budget. " * 40, mark)
    options = ListOptions(tag=mark, token_budget=_BUDGET_TOKENS)
    entries = memory.list_entries(
        host.context, host.access, host.ref, options, run_id=host.run.run_id
    )
    listed_ids = [entry["id"] for entry in entries]
    extra = (
        {}
        if not host.context.has_semantic_search
        else {"relevanceOrder": _ids_by_relevance(host, mark)}
    )
    return {
        "tokenBudget": _BUDGET_TOKENS,
        "budgetedTokenTotal": sum(count(entry["content"]) for entry in entries),
        "budgetedEntries": host.list_variable(tag=mark, tokenBudget=_BUDGET_TOKENS),
        "overBudgetEntryId": too_long_id,
        "overBudgetEntryOmitted": too_long_id not in listed_ids,
        "redactedContentSample": host.entry_variable(ids[-1], field="content"),
        "crossTenantBudgetedProbe": host.list_variable(
            refs.qualify_ref(OTHER_REF, OTHER_TENANT), tokenBudget=_BUDGET_TOKENS
        ),
        "recencyOrder": listed_ids,
        **extra,
    }


def _ids_by_relevance(host: ProbeHost, mark: str) -> list[str]:
    """Return the ids of the entries ranked by relevance; requires semantic search."""
    ranked = ListOptions(tag=mark, rank="relevance", query="when do deployments go out?")
    entries = memory.list_entries(
        host.context, host.access, host.ref, ranked, run_id=host.run.run_id
    )
    return [entry["id"] for entry in entries]


def probe_lost_memory(host: ProbeHost) -> Variables:
    """Write an entry, and erase it: the memory of this run cannot be replayed any more (MAE-3)."""
    name = host.write_entry("This entry is erased at once.", "source:probe")
    context, tenant, now = host.context, host.access.default_tenant, host.context.clock()
    with context.engine.open_snapshot(tenant) as snapshot:
        version = memory.find(context, snapshot, refs.space_of(host.ref), name)
    assert version is not None
    plan = plan_erasure(context, version, "", now)
    context.engine.write(tenant, lambda unit: erase_line(unit, version, plan.own))
    return {"erasedId": name}


FIXTURES: Final[Mapping[str, tuple[str, Probe]]] = {
    "conformance-noop": ("conformance/noop", probe_noop),
    "conformance-agent-memory-roundtrip": ("conformance/agent-memory-roundtrip", probe_round_trip),
    "conformance-agent-memory-redaction": ("conformance/agent-memory-redaction", probe_redaction),
    "conformance-agent-memory-ttl": ("conformance/agent-memory-ttl", probe_expiry),
    "conformance-agent-memory-cross-tenant": ("conformance/agent-memory-cti", probe_isolation),
    "conformance-agent-memory-injection-budget": ("conformance/agent-memory-budget", probe_budget),
    "memoranda-conformance-lost-memory": ("conformance/lost-memory", probe_lost_memory),
}


def run_fixture(context: Context, access: Access, workflow_id: str, /, **about: Any) -> Run:
    """Run a fixture, and return its finished run. `about`: tags and metadata of the run."""
    ref, probe = FIXTURES[workflow_id]
    with _ProbeRun(context, access, workflow_id, ref, **about) as host:
        variables = probe(host)
    return _finish(context, access, host.run, variables)


# --- verbs of the test hooks -----------------------------------------------------------------------------------


def seed(context: Context, access: Access, ref: str, drafts: list[Draft]) -> list[str]:
    """Write entries, and return their ids."""
    return [memory.put_entry(context, access, ref, draft)["id"] for draft in drafts]


def distill(
    context: Context,
    access: Access,
    ref: str,
    *,
    token_budget: int | None,
    sources: list[str] | None,
    is_indexed: bool,
    has_canary: bool,
) -> distillation.Distilled:
    """Distill in a run that resolved all canaries and apparent secrets in the sources."""
    with _ProbeRun(context, access, "conformance-distillation", ref) as host:
        for number, value in enumerate(_find_canaries(sources or []) if has_canary else ()):
            context.secrets.register(host.run.key, f"canary-{number}", value)
        distilled = distillation.distill(
            context,
            access,
            ref,
            token_budget=token_budget,
            is_indexed=is_indexed,
            given=sources,
            run_id=host.run.run_id,
        )
    _finish(context, access, host.run, {})
    return distilled


def consolidate(
    context: Context, access: Access, ref: str, *, has_canary: bool
) -> tuple[distillation.Consolidated, bool | None]:
    """Consolidate a ref; with a canary, a run first writes entries that contain a secret of the run.

    Return the consolidation, and True if the secret leaked (None without a canary).
    """
    value = None
    if has_canary:
        with _ProbeRun(context, access, "conformance-consolidation", ref) as host:
            value = host.resolve_secret()
            host.write_entry(f"The billing service signs its calls with {value}.")
            host.write_entry(f"The billing service signs its calls with {value}.")
            host.write_entry("Deployments go out on Tuesdays.")
        _finish(context, access, host.run, {})
    result = distillation.consolidate(context, access, ref)
    if value is None:
        return result, None
    entries = memory.list_entries(context, access, ref, ListOptions(limit=1000))
    return result, any(value in str(entry) for entry in entries)


def fire(
    context: Context, access: Access, ref: str, condition: str
) -> tuple[Event | None, commitments.Commitment, str]:
    """Write a memory with a commitment, find the commitment, and fire it twice.

    Return the event of the first firing, the commitment after the second, and a canary from its text.
    """
    canary = f"parcel {secrets.token_hex(8)}"
    texts = {
        "time": f"Remind me tomorrow at 9:00 to send {canary} to the warehouse.",
        "predicate": f"When the audit is finished, send {canary} to the warehouse.",
    }
    if condition not in texts:
        raise InvalidInput("condition must be time or predicate")
    entry = memory.put_entry(context, access, ref, Draft(content=texts[condition]))
    found_commitments = commitments.infer(context, access, ref)
    commitment = next(
        one
        for one in found_commitments
        if one.memory_id == entry["id"] and one.condition == condition
    )
    event, _ = commitments.fire_now(context, access, commitment.commitment_id, condition=condition)
    _, after = commitments.fire_now(context, access, commitment.commitment_id, condition=condition)
    return event, after, canary


# --- inside ----------------------------------------------------------------------------------------------------


class _ProbeRun:
    """A run as a context manager. An error in its body fails the run; its secrets are always forgotten."""

    def __init__(
        self, context: Context, access: Access, workflow_id: str, ref: str, **about: Any
    ) -> None:
        self._context, self._access, self._workflow_id, self._ref = (
            context,
            access,
            workflow_id,
            ref,
        )
        self._about = about

    def __enter__(self) -> ProbeHost:
        now, agent = self._context.clock(), {"agentId": AGENT_ID, "memoryRef": self._ref}
        run = self._context.engine.write(
            self._access.default_tenant,
            lambda unit: runs.begin(
                unit,
                workflow_id=self._workflow_id,
                now=now,
                agent=agent,
                access=self._access,
                **self._about,
            ),
        )
        self._host = ProbeHost(context=self._context, access=self._access, run=run, ref=self._ref)
        return self._host

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._context.secrets.end(self._host.run.key)
        if kind is not None:
            error = {"code": "probe_failed", "message": "the probe could not be carried out"}
            _finish(self._context, self._access, self._host.run, {}, status="failed", error=error)


def _finish(context: Context, access: Access, run: Run, variables: Variables, **how: Any) -> Run:
    """Finish a run with variables, and return it."""
    now = context.clock()

    def work(unit: Unit) -> Run:
        # Loaded again, because the run was written since.
        return runs.finish(unit, runs.load(unit, run.run_id), now=now, variables=variables, **how)

    return context.engine.write(access.default_tenant, work)


def _ensure_foreign_entry(context: Context) -> str:
    """Return the id of an entry of another tenant, written if missing."""
    them = Access(
        credential="conformance",
        actor=OTHER_TENANT,
        tenant=OTHER_TENANT,
        default_tenant=OTHER_TENANT,
    )
    entries = memory.list_entries(context, them, OTHER_REF, ListOptions(limit=1))
    if not entries:
        entries = [
            memory.put_entry(context, them, OTHER_REF, Draft(content="Nobody else may read this."))
        ]
    return str(entries[0]["id"])


def _find_canaries(texts: list[str]) -> list[str]:
    canaries = [match[0] for text in texts for match in _CANARY.finditer(text)]
    canaries += [
        text[secret.start : secret.end] for text in texts for secret in redaction.detect(text)
    ]
    return list(dict.fromkeys(canaries))
