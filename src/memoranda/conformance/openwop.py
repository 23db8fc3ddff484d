"""The seams of openwop's suite: routes and workflows over the real verbs; they need a credential as any do."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType

from memoranda.bindings.http.app import Seams
from memoranda.bindings.http.call import Call
from memoranda.bindings.http.openwop import OPENWOP
from memoranda.bindings.operations.openwop import EXAMPLE_REF
from memoranda.conformance import probes
from memoranda.errors import InvalidInput
from memoranda.service.core.access import Access
from memoranda.service.core.verbs import Caller, Verb, Verbs
from memoranda.service.openwop.runs import Run
from memoranda.service.service import Service
from memoranda.standards.openwop.entry import MAX_CONTENT_BYTES, Draft, check_id
from memoranda.standards.openwop.events import CONDITIONS
from memoranda.standards.openwop.fields import OpenwopShape, check_text, text_limit, word_choice
from memoranda.standards.openwop.refs import MAX_REF_CHARS
from memoranda.standards.openwop.requests import RefRequest
from memoranda.standards.openwop.runs import RunRequest

# A suite seeds a handful.
MAX_SEEDS: Final = 1000


class Probes(Verbs[Caller]):
    """What a suite asks for beside the verbs of openwop."""

    run = Verb(probes.run_fixture, "read", "write")
    seed = Verb(probes.seed, "write")
    distill = Verb(probes.distill, "write")
    consolidate = Verb(probes.consolidate, "read", "write")
    fire = Verb(probes.fire, "write")


def _probes(service: Service) -> Probes[None]:
    return Probes(service.context, None)


def _fixture(service: Service, access: Access, request: RunRequest) -> Run:
    return _probes(service).run(
        access, request.workflow_id, tags=request.tags, metadata=dict(request.metadata)
    )


# --- requests ----------------------------------------------------------------------------------------------


class SeedEntry(Draft):
    """An entry; its id only says which is which."""

    id: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.id is not None:
            # Ids are the host's to give.
            check_id(self.id, "id")


class Seed(RefRequest):
    """Entries to write."""

    entries: Annotated[list[SeedEntry], Meta(max_length=MAX_SEEDS)]


class SuiteRequest(OpenwopShape, forbid_unknown_fields=False):
    """What a suite says beside the ref is its own business."""

    memory_ref: Annotated[str, text_limit(MAX_REF_CHARS)]


class Distill(SuiteRequest):
    """What to distil, and how."""

    token_budget: Annotated[int, Meta(ge=1)] | None = None
    sources: Annotated[list[Any], Meta(max_length=MAX_SEEDS)] | UnsetType = UNSET
    index_emitted: bool = True
    include_secret_canary: bool = False


class Consolidate(SuiteRequest):
    """Whether a secret is put in first."""

    include_secret_canary: bool = False


class Fire(SuiteRequest):
    """Which kind of commitment."""

    condition: Annotated[str, word_choice(CONDITIONS)] = "time"
    include_intention_canary: bool = False


# --- verbs -------------------------------------------------------------------------------------------------


def seed(service: Service, call: Call, asked: Seed) -> dict[str, Any]:
    ids = _probes(service).seed(call.access, asked.memory_ref, list(asked.entries))
    made = zip(asked.entries, ids, strict=True)
    return {"entries": [{"id": entry.id, "memoryId": memory_id} for entry, memory_id in made]}


def compact(service: Service, call: Call, asked: SuiteRequest) -> dict[str, Any]:
    done = service.openwop.compact(call.access, asked.memory_ref)
    return {
        "type": done.event["type"],
        "payload": done.event["payload"],
        "outputContent": done.entry["content"],
        "runId": done.run.run_id,
    }


def distill(service: Service, call: Call, asked: Distill) -> dict[str, Any]:
    done = _probes(service).distill(
        call.access,
        asked.memory_ref,
        token_budget=asked.token_budget,
        given=None if asked.sources is UNSET else _sources(asked.sources),
        is_indexed=asked.index_emitted,
        has_canary=asked.include_secret_canary,
    )
    result: dict[str, Any] = {
        "event": done.event["payload"],
        "archiveChecksum": done.checksum,
        "indexUpdated": done.index is not None,
        "runId": done.run.run_id,
    }
    return result if done.index is None else {**result, "indexFile": done.index}


def _sources(given: list[Any]) -> list[str]:
    found = [each.get("content") if isinstance(each, dict) else each for each in given]
    return [
        check_text(text, f"sources[{index}]", MAX_CONTENT_BYTES) for index, text in enumerate(found)
    ]


def consolidate(service: Service, call: Call, asked: Consolidate) -> dict[str, Any]:
    done, has_leaked = _probes(service).consolidate(
        call.access, asked.memory_ref, has_canary=asked.include_secret_canary
    )
    result: dict[str, Any] = {"event": done.event["payload"], "runId": done.run.run_id}
    return result if has_leaked is None else {**result, "secretLeaked": has_leaked}


def fire(service: Service, call: Call, asked: Fire) -> dict[str, Any]:
    event, after, canary = _probes(service).fire(call.access, asked.memory_ref, asked.condition)
    if event is None:
        raise InvalidInput("the commitment was not fired")
    result: dict[str, Any] = {
        "event": event["payload"],
        "fireCount": after.fired,
        "runId": event["runId"],
    }
    return {**result, "intentionCanary": canary} if asked.include_intention_canary else result


# --- the table ---------------------------------------------------------------------------------------------

_REF: Final = {"memoryRef": EXAMPLE_REF}
_FOR: Final = "For conformance suites:"
_row: Final = OPENWOP.row

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
            {**_REF, "entries": [{"id": "s1", "content": "Deployments go out on Tuesdays."}]},
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
            _REF,
        ),
        _row(
            "POST",
            "/v1/host/sample/memory/distill",
            "openwop_distill",
            f"{_FOR} distil a ref",
            distill,
            "OpenwopOpen",
            Distill,
            {**_REF, "tokenBudget": 8000},
        ),
        _row(
            "POST",
            "/v1/host/sample/memory/consolidate",
            "openwop_consolidate",
            f"{_FOR} consolidate a ref",
            consolidate,
            "OpenwopOpen",
            Consolidate,
            _REF,
        ),
        _row(
            "POST",
            "/v1/host/sample/commitment/fire",
            "openwop_fire",
            f"{_FOR} fire a commitment",
            fire,
            "OpenwopOpen",
            Fire,
            {**_REF, "condition": "predicate"},
        ),
    ),
    workflows=dict.fromkeys(probes.FIXTURES, _fixture),
)
