"""Programs for conformance suites of openwop: each uses the real store as a host would, and shows what it found.

A fixture is a workflow that a suite starts by its id; a host only has to know the id and to produce the variables. None
of these is offered unless the server is started for a suite. What they do to memory, any host could do.
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
from memoranda.service.openwop import commitments, memory, runs
from memoranda.service.openwop import distill as distillation
from memoranda.service.openwop.openwop import MEMORY_KEY
from memoranda.service.openwop.runs import Run
from memoranda.standards.openwop import redaction, refs
from memoranda.standards.openwop.entry import Draft, ListOptions
from memoranda.standards.openwop.events import Event
from memoranda.storage.engine.contract import Unit

# Whose memory the cross-tenant probes try to read: somebody who is never the caller.
OTHER_TENANT: Final = "openwop-conformance-other-tenant"
OTHER_REF: Final = "conformance/another-tenant/agent-memory"
AGENT_ID: Final = "memoranda.conformance"
SECRET_ID: Final = "conformance-test-secret"  # noqa: S105 (an id, not a secret)
_CANARY: Final = re.compile(r"(?<!\S)\S*?canary\S*", re.IGNORECASE)
_BUDGET_TOKENS: Final = 40
_EXPIRES_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host with one run, whose caller is `access`."""

    context: Context
    access: Access
    run: Run
    ref: str

    def put(
        self,
        content: str,
        *tags: str,
        node_id: str | None = "probe",
        expires: Instant | None = None,
    ) -> str:
        """Write as a node of the run does; the id."""
        draft = Draft(content=content, tags=tags, expires=expires)
        made = memory.put_entry(
            self.context,
            self.access,
            self.ref,
            draft,
            run_id=self.run.run_id,
            node_id=node_id,
            agent_id=AGENT_ID,
        )
        return str(made["id"])

    def secret(self) -> str:
        """A secret that the run resolved: the host's own of that id, else one made up for it."""
        try:
            value = self.context.secrets.resolve(SECRET_ID).value
        except NotFound:
            value = f"byok-{secrets.token_urlsafe(24)}"
        self.context.secrets.register(self.run.key, SECRET_ID, value)
        return value

    def entry(self, name: str, **more: str) -> dict[str, Any]:
        """A variable that shows an entry."""
        return {MEMORY_KEY: {"memoryRef": self.ref, "id": name, **more}}

    def entries(self, ref: str | None = None, **options: Any) -> dict[str, Any]:
        """A variable that shows what `list` gives."""
        return {MEMORY_KEY: {"memoryRef": ref or self.ref, "options": options}}


Variables = Mapping[str, Any]
Probe = Callable[[Host], Variables]


# --- fixtures ------------------------------------------------------------------------------------------------


def noop(host: Host) -> Variables:
    """Nothing but the summary that a host writes at the end of a session, which is no node's."""
    host.put("A run of conformance-noop took place.", "source:run-summary", node_id=None)
    return {}


def round_trip(host: Host) -> Variables:
    return {
        "memoryReadback": host.entry(
            host.put("The probe wrote this and reads it back.", "source:probe")
        )
    }


def redacts(host: Host) -> Variables:
    value = host.secret()
    name = host.put(f"The deployment uses {value} for its calls.", "source:probe", f"key:{value}")
    return {"memoryReadback": host.entry(name)}


def expires(host: Host) -> Variables:
    """One entry that lasts and one that ended before it began; the latter only we ourselves can write."""
    now = host.context.clock()
    fresh = host.put(
        "This one lasts for an hour.", "source:probe", expires=Instant(now + _EXPIRES_MS)
    )
    space = refs.space_of(host.ref)
    ended = Draft(content="This one is over.", tags=("source:probe",), expires=Instant(now - 1))
    gone = memory.prepare(host.context, host.access.default_tenant, space, ended, now)
    host.context.engine.write(
        host.access.default_tenant, lambda unit: memory.append(unit, gone, now)
    )
    return {"memoryList": host.entries(), "freshId": fresh, "expiredId": gone.entry["id"]}


def isolates(host: Host) -> Variables:
    """Another tenant keeps something; whoever asks for it here, by any name, finds nothing."""
    theirs = _others(host.context)
    own = host.put("This belongs to the tenant of the run.", "source:probe")
    seen = memory.get_entry(host.context, host.access, OTHER_REF, theirs, run_id=host.run.run_id)
    probe: Any = host.entries(refs.qualify_ref(OTHER_REF, OTHER_TENANT))
    return {
        "ownerEntryId": own,
        "ownerProbe": host.entries(),
        "crossTenantProbe": probe if seen is None else [seen],
    }


def fits_budget(host: Host) -> Variables:
    """What `list` gives for a prompt, within a budget of tokens (RFC 0113)."""
    mark, value, count = f"run:{host.run.run_id}", host.secret(), host.context.cal.counter.count
    _others(host.context)
    written = [
        host.put("Deployments go out on Tuesdays.", mark),
        host.put("The gate must be green before a handoff.", mark),
        host.put(f"Calls are signed with {value}.", mark),
    ]
    over = host.put("This alone is over every budget. " * 40, mark)
    options = ListOptions(tag=mark, token_budget=_BUDGET_TOKENS)
    found = memory.list_entries(
        host.context, host.access, host.ref, options, run_id=host.run.run_id
    )
    given = [entry["id"] for entry in found]
    shown = (
        {}
        if not host.context.has_semantic_search
        else {"relevanceOrder": _by_relevance(host, mark)}
    )
    return {
        "tokenBudget": _BUDGET_TOKENS,
        "budgetedTokenTotal": sum(count(entry["content"]) for entry in found),
        "budgetedEntries": host.entries(tag=mark, tokenBudget=_BUDGET_TOKENS),
        "overBudgetEntryId": over,
        "overBudgetEntryOmitted": over not in given,
        "redactedContentSample": host.entry(written[-1], field="content"),
        "crossTenantBudgetedProbe": host.entries(
            refs.qualify_ref(OTHER_REF, OTHER_TENANT), tokenBudget=_BUDGET_TOKENS
        ),
        "recencyOrder": given,
        **shown,
    }


def _by_relevance(host: Host, mark: str) -> list[str]:
    """Only a host with semantic search ranks so; the others refuse it."""
    ranked = ListOptions(tag=mark, rank="relevance", query="when do deployments go out?")
    found = memory.list_entries(host.context, host.access, host.ref, ranked, run_id=host.run.run_id)
    return [entry["id"] for entry in found]


FIXTURES: Final[Mapping[str, tuple[str, Probe]]] = {
    "conformance-noop": ("conformance/noop", noop),
    "conformance-agent-memory-roundtrip": ("conformance/agent-memory-roundtrip", round_trip),
    "conformance-agent-memory-redaction": ("conformance/agent-memory-redaction", redacts),
    "conformance-agent-memory-ttl": ("conformance/agent-memory-ttl", expires),
    "conformance-agent-memory-cross-tenant": ("conformance/agent-memory-cti", isolates),
    "conformance-agent-memory-injection-budget": ("conformance/agent-memory-budget", fits_budget),
}


def run_fixture(context: Context, access: Access, workflow_id: str, /, **about: Any) -> Run:
    """Do what a fixture says, in a run of its own that is over when this returns. `about`: tags, metadata."""
    ref, probe = FIXTURES[workflow_id]
    with _Session(context, access, workflow_id, ref, **about) as host:
        variables = probe(host)
    return _finish(context, access, host.run, variables)


# --- what the seams of a suite do ------------------------------------------------------------------------------


def seed(context: Context, access: Access, ref: str, drafts: list[Draft]) -> list[str]:
    """Write entries; their ids."""
    return [memory.put_entry(context, access, ref, draft)["id"] for draft in drafts]


def distill(
    context: Context,
    access: Access,
    ref: str,
    *,
    token_budget: int | None,
    given: list[str] | None,
    is_indexed: bool,
    has_canary: bool,
) -> distillation.Distilled:
    """A distillation in a run that resolved whatever in the sources is a canary or looks like a secret."""
    with _Session(context, access, "conformance-distillation", ref) as host:
        for number, value in enumerate(_canaries(given or []) if has_canary else ()):
            context.secrets.register(host.run.key, f"canary-{number}", value)
        made = distillation.distill(
            context,
            access,
            ref,
            token_budget=token_budget,
            is_indexed=is_indexed,
            given=given,
            run_id=host.run.run_id,
        )
    _finish(context, access, host.run, {})
    return made


def consolidate(
    context: Context, access: Access, ref: str, *, has_canary: bool
) -> tuple[distillation.Consolidated, bool | None]:
    """A consolidation; with a canary, of entries that a run wrote while it knew a secret. And whether that leaked."""
    value = None
    if has_canary:
        with _Session(context, access, "conformance-consolidation", ref) as host:
            value = host.secret()
            host.put(f"The billing service signs its calls with {value}.")
            host.put(f"The billing service signs its calls with {value}.")
            host.put("Deployments go out on Tuesdays.")
        _finish(context, access, host.run, {})
    done = distillation.consolidate(context, access, ref)
    if value is None:
        return done, None
    shown = memory.list_entries(context, access, ref, ListOptions(limit=1000))
    return done, any(value in str(entry) for entry in shown)


def fire(
    context: Context, access: Access, ref: str, condition: str
) -> tuple[Event | None, commitments.Commitment, str]:
    """Write a memory that states a commitment, find it, and fire it twice; what came of it, and words it holds."""
    canary = f"parcel {secrets.token_hex(8)}"
    said = {
        "time": f"Remind me tomorrow at 9:00 to send {canary} to the warehouse.",
        "predicate": f"When the audit is finished, send {canary} to the warehouse.",
    }
    if condition not in said:
        raise InvalidInput("condition must be time or predicate")
    made = memory.put_entry(context, access, ref, Draft(content=said[condition]))
    known = commitments.infer(context, access, ref)
    each = next(one for one in known if one.memory_id == made["id"] and one.condition == condition)
    event, _ = commitments.fire_now(context, access, each.commitment_id, condition=condition)
    _, after = commitments.fire_now(context, access, each.commitment_id, condition=condition)
    return event, after, canary


# --- inside ----------------------------------------------------------------------------------------------------


class _Session:
    """A run; if what is done in it fails, it has failed, and either way its secrets are forgotten."""

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

    def __enter__(self) -> Host:
        now, agent = self._context.clock(), {"agentId": AGENT_ID, "memoryRef": self._ref}
        run = self._context.engine.write(
            self._access.default_tenant,
            lambda unit: runs.begin(
                unit, workflow_id=self._workflow_id, now=now, agent=agent, **self._about
            ),
        )
        self._host = Host(context=self._context, access=self._access, run=run, ref=self._ref)
        return self._host

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._context.secrets.end(self._host.run.key)
        if kind is not None:
            error = {"code": "probe_failed", "message": "the probe could not be carried out"}
            _finish(self._context, self._access, self._host.run, {}, status="failed", error=error)


def _finish(context: Context, access: Access, run: Run, variables: Variables, **how: Any) -> Run:
    now = context.clock()

    def work(unit: Unit) -> Run:
        # Anew: it has written since.
        return runs.finish(unit, runs.load(unit, run.run_id), now=now, variables=variables, **how)

    return context.engine.write(access.default_tenant, work)


def _others(context: Context) -> str:
    """Something that another tenant keeps; its id."""
    them = Access(
        credential="conformance",
        actor=OTHER_TENANT,
        tenant=OTHER_TENANT,
        default_tenant=OTHER_TENANT,
    )
    found = memory.list_entries(context, them, OTHER_REF, ListOptions(limit=1))
    if not found:
        found = [
            memory.put_entry(context, them, OTHER_REF, Draft(content="Nobody else may read this."))
        ]
    return str(found[0]["id"])


def _canaries(texts: list[str]) -> list[str]:
    found = [match[0] for text in texts for match in _CANARY.finditer(text)]
    found += [text[each.start : each.end] for text in texts for each in redaction.detect(text)]
    return list(dict.fromkeys(found))
