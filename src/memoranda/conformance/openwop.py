"""Test hooks of the openwop suite: routes and workflows over the real verbs, with the usual authentication.

The openwop suite checks behaviour that a host has no public operation for, such as "a secret does not reach a summary".
The paths of this module exist only if the server was started for a suite; they are no part of the public API, and no
client may depend on them.

A hook calls the same verbs as a normal request, with the caller's own access: it must not do by itself what the suite
wants to see, or the check would prove nothing. Hooks that need a second owner or tenant use `_suite_access`, which
makes a name that no person can have, so a suite cannot read or change anyone's memories. The fixtures' workflows are in
`probes` and `nodes`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType, field

from memoranda.bindings.http.app import Seams
from memoranda.bindings.http.call import HttpCall
from memoranda.bindings.http.openwop import OPENWOP, require_allowed_url
from memoranda.bindings.http.openwop_two import OPENWOP_TWO
from memoranda.bindings.http.openwop_versions import make_get
from memoranda.bindings.operations.openwop import EXAMPLE_PROPOSAL, EXAMPLE_REF
from memoranda.conformance import nodes, probes
from memoranda.errors import InvalidInput, NotFound, WorkflowError
from memoranda.service.core.access import Access
from memoranda.service.core.verbs import Caller, Verb, Verbs
from memoranda.service.openwop import webhooks, workspace
from memoranda.service.openwop.runs import Run
from memoranda.service.service import Service
from memoranda.standards.openwop import capabilities, inventory
from memoranda.standards.openwop.entry import MAX_CONTENT_BYTES, Draft, check_id
from memoranda.standards.openwop.events import CONDITIONS
from memoranda.standards.openwop.fields import OpenwopShape, check_text, text_limit, word_choice
from memoranda.standards.openwop.problem import SUBSCRIPTION_NOT_FOUND
from memoranda.standards.openwop.refs import MAX_REF_CHARS
from memoranda.standards.openwop.requests import (
    ListProposalsRequest,
    RefRequest,
    RegisterWebhookRequest,
)
from memoranda.standards.openwop.runs import RunRequest
from memoranda.standards.openwop.workspace import check_content, check_path

# Entries of one request; a suite seeds a few.
MAX_SEEDS: Final = 1000
# The workflow of nodes with the shortest log.
_SHORTEST: Final = "conformance-idempotent"
# Characters of the names of a workspace's owner.
MAX_OWNER_CHARS: Final = 100
# The agent that runs the fixtures.
AGENT: Final = {
    "agentId": probes.AGENT_ID,
    "persona": "Probe",
    "label": "Runs the fixtures of conformance suites",
    "modelClass": "none",
    "memoryShape": {"scratchpad": True, "conversation": True, "longTerm": True},
}


class Probes(Verbs[Caller]):
    """The verbs that a suite needs besides those of openwop."""

    run = Verb(probes.run_fixture, "read", "write")
    run_nodes = Verb(nodes.run_nodes, "write")
    seed = Verb(probes.seed, "write")
    distill = Verb(probes.distill, "write")
    consolidate = Verb(probes.consolidate, "read", "write")
    fire = Verb(probes.fire, "write")


def _probes(service: Service) -> Probes[None]:
    return Probes(service.context, None)


def _run_fixture(service: Service, access: Access, request: RunRequest) -> Run:
    return _probes(service).run(
        access, request.workflow_id, tags=request.tags, metadata=dict(request.metadata)
    )


def _run_nodes(service: Service, access: Access, request: RunRequest) -> Run:
    return _probes(service).run_nodes(
        access,
        request.workflow_id,
        request.inputs,
        tags=request.tags,
        metadata=dict(request.metadata),
    )


# --- requests ----------------------------------------------------------------------------------------------


class SeedEntry(Draft):
    """An entry to write; its id only identifies it in the response."""

    id: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.id is not None:
            # Stored ids are assigned by the host.
            check_id(self.id, "id")


class Seed(RefRequest):
    """A request to write entries."""

    entries: Annotated[list[SeedEntry], Meta(max_length=MAX_SEEDS)]


class SuiteRequest(OpenwopShape, forbid_unknown_fields=False):
    """A request with a ref; further fields are ignored."""

    memory_ref: Annotated[str, text_limit(MAX_REF_CHARS)]


class Distill(SuiteRequest):
    """A request to distil texts or the entries of a ref."""

    token_budget: Annotated[int, Meta(ge=1)] | None = None
    # Any, not object: msgspec would look for a parser of `object`.
    sources: Annotated[list[Any], Meta(max_length=MAX_SEEDS)] | UnsetType = UNSET
    index_emitted: bool = True
    include_secret_canary: bool = False


class Consolidate(SuiteRequest):
    """A request to consolidate a ref, optionally after writing a secret into it."""

    include_secret_canary: bool = False


class Fire(SuiteRequest):
    """A request to fire a commitment with one kind of condition."""

    condition: Annotated[str, word_choice(CONDITIONS)] = "time"
    include_intention_canary: bool = False


class SuiteBody(OpenwopShape, forbid_unknown_fields=False):
    """A request whose fields are ignored."""


class SurfaceCall(OpenwopShape, forbid_unknown_fields=False):
    """A request to a surface of one of several tenants."""

    tenant_id: Annotated[str, text_limit(MAX_OWNER_CHARS)]
    surface: str
    op: str
    # Any, not object: msgspec would look for a parser of `object`.
    args: dict[str, Any] = field(default_factory=dict)


class WorkspaceCall(OpenwopShape, forbid_unknown_fields=False):
    """A request to one of several workspaces, each with an owner of its own."""

    tenant: Annotated[str, text_limit(MAX_OWNER_CHARS)]
    workspace: Annotated[str, text_limit(MAX_OWNER_CHARS)]
    op: Annotated[str, word_choice(("put", "get", "list", "delete"))]
    path: str = ""
    content: str = ""


# --- verbs -------------------------------------------------------------------------------------------------


def seed(service: Service, call: HttpCall, request: Seed) -> dict[str, object]:
    """Write the entries of a request, and return their ids."""
    ids = _probes(service).seed(call.access, request.memory_ref, list(request.entries))
    pairs = zip(request.entries, ids, strict=True)
    return {"entries": [{"id": entry.id, "memoryId": memory_id} for entry, memory_id in pairs]}


def compact(service: Service, call: HttpCall, request: SuiteRequest) -> dict[str, object]:
    """Compact the entries of a ref, and return the event and the new entry."""
    result = service.openwop.compact(call.access, request.memory_ref)
    return {
        "type": result.event["type"],
        "payload": result.event["payload"],
        "outputContent": result.entry["content"],
        "runId": result.run.run_id,
    }


def distill(service: Service, call: HttpCall, request: Distill) -> dict[str, object]:
    """Distill texts or the entries of a ref, and return the event and the checksum of the archive."""
    outcome = _probes(service).distill(
        call.access,
        request.memory_ref,
        token_budget=request.token_budget,
        sources=None if request.sources is UNSET else _read_sources(request.sources),
        is_indexed=request.index_emitted,
        has_canary=request.include_secret_canary,
    )
    result: dict[str, object] = {
        "event": outcome.event["payload"],
        "archiveChecksum": outcome.checksum,
        "indexUpdated": outcome.index is not None,
        "runId": outcome.run.run_id,
    }
    return result if outcome.index is None else {**result, "indexFile": outcome.index}


def _read_sources(sources: list[object]) -> list[str]:
    texts = [source.get("content") if isinstance(source, dict) else source for source in sources]
    return [
        check_text(text, f"sources[{index}]", MAX_CONTENT_BYTES) for index, text in enumerate(texts)
    ]


def consolidate(service: Service, call: HttpCall, request: Consolidate) -> dict[str, object]:
    """Consolidate a ref, and return the event; with a canary, also whether the secret leaked."""
    outcome, has_leaked = _probes(service).consolidate(
        call.access, request.memory_ref, has_canary=request.include_secret_canary
    )
    result: dict[str, object] = {"event": outcome.event["payload"], "runId": outcome.run.run_id}
    return result if has_leaked is None else {**result, "secretLeaked": has_leaked}


def fire(service: Service, call: HttpCall, request: Fire) -> dict[str, object]:
    """Fire a new commitment twice, and return its event and how often it counts as fired."""
    event, after, canary = _probes(service).fire(call.access, request.memory_ref, request.condition)
    if event is None:
        raise InvalidInput("the commitment was not fired")
    result: dict[str, object] = {
        "event": event["payload"],
        "fireCount": after.fired,
        "runId": event["runId"],
    }
    return {**result, "intentionCanary": canary} if request.include_intention_canary else result


def _suite_access(name: str) -> Access:
    """Return the access of an owner that only suites use: never the caller or anyone else."""
    owner = f"openwop-conformance-{name}"
    return Access(credential="conformance", actor=owner, tenant=owner, default_tenant=owner)


def call_surface(service: Service, call: HttpCall, request: SurfaceCall) -> object:
    """Call the webhooks of a tenant that only suites use. Raises NotFound for other surfaces: this host has none."""
    call.access.require("write")
    if request.surface != "webhooks":
        raise NotFound("this host has no such surface")
    access = _suite_access(f"surface:{request.tenant_id}")
    if request.op == "list":
        subscriptions = webhooks.subscriptions(service.context, access)
        return {
            "webhooks": [{"webhookId": one.webhook_id, "url": one.url} for one in subscriptions]
        }
    if request.op == "register":
        draft = RegisterWebhookRequest.parse(request.args)
        require_allowed_url(service, draft.url)
        return webhooks.register(service.context, access, draft.url, draft.events, draft.tags)
    if request.op != "unregister":
        raise InvalidInput("op must be register, list or unregister")
    if not webhooks.unregister(service.context, access, str(request.args.get("webhookId"))):
        raise WorkflowError("no such webhook", openwop_code=SUBSCRIPTION_NOT_FOUND)
    return {}


def get_owned_run(service: Service, call: HttpCall, _request: None) -> object:
    """Start a run, and return its snapshot with its owner."""
    return _probes(service).run_nodes(call.access, _SHORTEST, {}).snapshot()


def read_foreign_run(service: Service, call: HttpCall, _request: SuiteBody) -> object:
    """Read a run of another owner as the caller, which is refused."""
    run = nodes.run_nodes(service.context, _suite_access("reader"), _SHORTEST, {})
    return service.openwop.run(call.access, run.run_id).snapshot()


def call_workspace(service: Service, call: HttpCall, request: WorkspaceCall) -> object:
    """Call the workspace of an owner that only suites use: never that of the caller or of anyone else."""
    call.access.require("write")
    access = _suite_access(f"workspace:{request.tenant}/{request.workspace}")
    context = service.context
    if request.op == "list":
        return {"files": workspace.files(context, access)}
    path = check_path(request.path)
    if request.op == "put":
        return workspace.write_file(context, access, path, check_content(request.content))
    if request.op == "get":
        return workspace.file(context, access, path)
    if not workspace.remove_file(context, access, path):
        raise NotFound("no such workspace file")
    return {}


def _inventory(service: Service, call: HttpCall) -> dict[str, Any]:
    """Return the installed agents, with the one that runs the fixtures."""
    document = service.openwop.discovery(is_attended=True, fixtures=tuple(probes.FIXTURES))
    agent = inventory.build_agent_entry(
        AGENT,
        pack_name="memoranda.conformance",
        pack_version=document["implementation"]["version"],
        available=capabilities.find_dimensions(document),
    )
    return inventory.build_inventory([*service.openwop.agents(call.access)["agents"], agent])


def list_agents(service: Service, call: HttpCall, _request: None) -> object:
    """List the installed agents, with the one that runs the fixtures."""
    return _inventory(service, call)


get_agent = make_get(_inventory)


def get_workflow(_service: Service, call: HttpCall, _request: None) -> object:
    """Return the definition of a fixture. Raises NotFound."""
    name = call.path_name("workflow_id")
    if name in probes.FIXTURES:
        # A probe is one node to a suite.
        return nodes.describe_workflow(name, nodes.NodeWorkflow(nodes=("probe",)))
    if name not in nodes.WORKFLOWS:
        raise NotFound("no such workflow")
    return nodes.describe_workflow(name, nodes.WORKFLOWS[name])


def list_proposals(
    service: Service, call: HttpCall, request: ListProposalsRequest
) -> dict[str, object]:
    """List the proposals; an owner without any gets a draft, because a suite cannot make one."""
    host = service.openwop
    if "derive" in call.access.verbs and not host.proposals(call.access):
        draft = EXAMPLE_PROPOSAL
        host.propose(call.access, draft["kind"], draft["artifact"], title=draft["title"])
    return {"proposals": host.proposals(call.access, state=request.state, kind=request.kind)}


# --- the table ---------------------------------------------------------------------------------------------

_REF: Final = {"memoryRef": EXAMPLE_REF}
_FOR: Final = "For conformance suites:"
_row: Final = OPENWOP.row
_VERSIONS: Final = ((OPENWOP.row, "/v1", "openwop"), (OPENWOP_TWO.row, "", "openwop2"))

SEAMS: Final = Seams(
    operations=(
        _row(
            "POST",
            "/v1/test/memory/seed",
            "openwop_seed",
            f"{_FOR} write entries",
            seed,
            "OpenwopOpen",
            Seed,
            example={
                **_REF,
                "entries": [{"id": "s1", "content": "Deployments go out on Tuesdays."}],
            },
            success=(201,),
        ),
        _row(
            "POST",
            "/v1/test/memory/compact",
            "openwop_compact",
            f"{_FOR} compact a ref",
            compact,
            "OpenwopOpen",
            SuiteRequest,
            example=_REF,
        ),
        _row(
            "POST",
            "/v1/host/sample/memory/distill",
            "openwop_distill",
            f"{_FOR} distil a ref",
            distill,
            "OpenwopOpen",
            Distill,
            example={**_REF, "tokenBudget": 8000},
        ),
        _row(
            "POST",
            "/v1/host/sample/memory/consolidate",
            "openwop_consolidate",
            f"{_FOR} consolidate a ref",
            consolidate,
            "OpenwopOpen",
            Consolidate,
            example=_REF,
        ),
        _row(
            "POST",
            "/v1/host/sample/commitment/fire",
            "openwop_fire",
            f"{_FOR} fire a commitment",
            fire,
            "OpenwopOpen",
            Fire,
            example={**_REF, "condition": "predicate"},
        ),
        _row(
            "POST",
            "/v1/host/sample/workspace/op",
            "openwop_call_workspace",
            f"{_FOR} call the workspace of another owner",
            call_workspace,
            "OpenwopOpen",
            WorkspaceCall,
            example={"tenant": "a", "workspace": "b", "op": "list"},
        ),
        _row(
            "POST",
            "/v1/host/sample/test/surface",
            "openwop_call_surface",
            f"{_FOR} call the webhooks of another tenant",
            call_surface,
            "OpenwopOpen",
            SurfaceCall,
            example={"tenantId": "tenant-a", "surface": "webhooks", "op": "list"},
        ),
        _row(
            "GET",
            "/v1/host/sample/identity/owned-run",
            "openwop_owned_run",
            f"{_FOR} return a run of the caller",
            get_owned_run,
            "OpenwopOpen",
        ),
        _row(
            "POST",
            "/v1/host/sample/identity/cross-workspace-read",
            "openwop_read_foreign_run",
            f"{_FOR} read a run of another owner, which is refused",
            read_foreign_run,
            "OpenwopOpen",
            SuiteBody,
        ),
        _row(
            "GET",
            "/v1/workflows/{workflow_id}",
            "openwop_workflow",
            f"{_FOR} return the definition of a workflow",
            get_workflow,
            "OpenwopOpen",
        ),
    ),
    replaced=(
        *(
            row(
                "GET",
                f"{folder}/agents",
                f"{name}_agents",
                "List the installed agents, and the memory that each lacks",
                list_agents,
                "OpenwopInventory",
            )
            for row, folder, name in _VERSIONS
        ),
        *(
            row(
                "GET",
                f"{folder}/agents/{{agent_id}}",
                f"{name}_agent",
                "Return one installed agent, and the memory that it lacks",
                get_agent,
                "OpenwopAgent",
            )
            for row, folder, name in _VERSIONS
        ),
        _row(
            "GET",
            "/v1/host/sample/proposals",
            "openwop_proposals",
            "List the proposals of agents",
            list_proposals,
            "OpenwopProposals",
            ListProposalsRequest,
            example={"state": "draft"},
        ),
    ),
    workflows={
        **dict.fromkeys(probes.FIXTURES, _run_fixture),
        **dict.fromkeys(nodes.WORKFLOWS, _run_nodes),
    },
)
