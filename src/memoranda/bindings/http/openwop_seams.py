"""What only a conformance suite of openwop asks for. Served when the server is started with --seams, and then, too,
only with a credential; everything goes through the real verbs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memoranda.bindings.http.openwop_runs import WORKFLOWS, Workflow
from memoranda.bindings.http.openwop_wire import Asked, Paths, memory_ref
from memoranda.bindings.http.request import Answer
from memoranda.errors import InvalidInput
from memoranda.service.core.access import Access
from memoranda.service.openwop.openwop import Probes
from memoranda.service.openwop.runs import Run
from memoranda.service.service import Service
from memoranda.standards.openwop.entry import MAX_CONTENT_BYTES, Draft, check_id
from memoranda.standards.openwop.events import CONDITIONS
from memoranda.standards.openwop.fields import check_boolean, check_integer, check_text, check_word, closed_object
from memoranda.standards.openwop.runs import RunRequest

# A suite seeds a handful.
MAX_SEEDS: Final = 1000


def _fixture(service: Service, access: Access, request: RunRequest) -> Run:
    return service.openwop.probes.run(access, request.workflow_id, tags=request.tags, metadata=dict(request.metadata))


FIXTURES: Final = Probes.fixtures
ALL_WORKFLOWS: Final[Mapping[str, Workflow]] = {**WORKFLOWS, **dict.fromkeys(FIXTURES, _fixture)}


def seed(service: Service, asked: Asked) -> Answer:
    fields = asked.only("memoryRef", "entries")
    entries = fields.get("entries")
    if not isinstance(entries, list) or len(entries) > MAX_SEEDS:
        raise InvalidInput(f"entries must be an array of at most {MAX_SEEDS}")
    names, drafts = [], []
    for index, each in enumerate(entries):
        given = closed_object(each, ("id", "content", "tags", "expiresAt"), f"entries[{index}]")
        # Ids are the host's to give; the suite's own only says which is which.
        names.append(check_id(given["id"], f"entries[{index}].id") if "id" in given else None)
        drafts.append(Draft.parse({name: value for name, value in given.items() if name != "id"}))
    ids = service.openwop.probes.seed(asked.access, memory_ref(fields), drafts)
    return Answer(
        result={"entries": [{"id": name, "memoryId": made} for name, made in zip(names, ids, strict=True)]}, status=201
    )


def compact(service: Service, asked: Asked) -> Answer:
    done = service.openwop.compact(asked.access, memory_ref(asked.object()))
    return Answer(
        result={
            "type": done.event["type"],
            "payload": done.event["payload"],
            "outputContent": done.entry["content"],
            "runId": done.run.run_id,
        }
    )


def distill(service: Service, asked: Asked) -> Answer:
    fields = asked.object()
    budget = fields.get("tokenBudget")
    done = service.openwop.probes.distill(
        asked.access,
        memory_ref(fields),
        token_budget=None if budget is None else check_integer(budget, "tokenBudget", least=1),
        given=_sources(fields["sources"]) if "sources" in fields else None,
        is_indexed=check_boolean(fields.get("indexEmitted", True), "indexEmitted"),
        has_canary=check_boolean(fields.get("includeSecretCanary", False), "includeSecretCanary"),
    )
    result: dict[str, Any] = {
        "event": done.event["payload"],
        "archiveChecksum": done.checksum,
        "indexUpdated": done.index is not None,
        "runId": done.run.run_id,
    }
    return Answer(result=result if done.index is None else {**result, "indexFile": done.index})


def _sources(value: object) -> list[str]:
    if not isinstance(value, list) or len(value) > MAX_SEEDS:
        raise InvalidInput(f"sources must be an array of at most {MAX_SEEDS}")
    found = [each.get("content") if isinstance(each, dict) else each for each in value]
    return [check_text(text, f"sources[{index}]", MAX_CONTENT_BYTES) for index, text in enumerate(found)]


def consolidate(service: Service, asked: Asked) -> Answer:
    fields = asked.object()
    has_canary = check_boolean(fields.get("includeSecretCanary", False), "includeSecretCanary")
    done, has_leaked = service.openwop.probes.consolidate(asked.access, memory_ref(fields), has_canary=has_canary)
    result: dict[str, Any] = {"event": done.event["payload"], "runId": done.run.run_id}
    return Answer(result=result if has_leaked is None else {**result, "secretLeaked": has_leaked})


def fire(service: Service, asked: Asked) -> Answer:
    fields = asked.object()
    has_canary = check_boolean(fields.get("includeIntentionCanary", False), "includeIntentionCanary")
    condition = check_word(fields.get("condition", "time"), CONDITIONS, "condition")
    event, after, canary = service.openwop.probes.fire(asked.access, memory_ref(fields), condition)
    if event is None:
        raise InvalidInput("the commitment was not fired")
    result: dict[str, Any] = {"event": event["payload"], "fireCount": after.fired, "runId": event["runId"]}
    return Answer(result={**result, "intentionCanary": canary} if has_canary else result)


PATHS: Final[Paths] = {
    "/v1/test/memory/seed": {"POST": seed},
    "/v1/test/memory/compact": {"POST": compact},
    "/v1/host/sample/memory/distill": {"POST": distill},
    "/v1/host/sample/memory/consolidate": {"POST": consolidate},
    "/v1/host/sample/commitment/fire": {"POST": fire},
}
