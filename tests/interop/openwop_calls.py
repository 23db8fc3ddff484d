"""Call every method of the installed `openwop-client` that concerns memory, and print what each returned.

    python openwop_calls.py URL KEY

Runs in a process of its own, because the two versions of the client are the same module.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import openwop_client as wop  # type: ignore[import-not-found]

PASS = {"workflowId": "memoranda.consolidation", "inputs": {"memoryRef": "agents/client"}}
HOOK = {"url": "https://example.com/hook", "events": ["commitment.fired"]}
JOB = {"workflowId": "acme.report", "schedule": {"cron": "0 9 * * 1"}}


def calls(client: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the methods that both versions have, each as a name and a function."""
    kept: dict[str, Any] = {}

    def start(name: str, **request: Any) -> Any:
        key = uuid.uuid4().hex
        kept[name] = client.runs_create(wop.CreateRunRequest(**request), idempotency_key=key, dedup=True)
        return kept[name].runId

    def capabilities() -> Any:
        document = client.discovery_capabilities()
        return getattr(document, "preferredVersion", None) or document.protocolVersion

    def events() -> Any:
        return [event.type for event in client.runs_events(kept["run"].runId, stream_mode=("updates", "messages"))]

    def fork() -> Any:
        return client.runs_fork(kept["run"].runId, wop.ForkRunRequest(fromSeq=0, mode="replay")).mode

    def register() -> Any:
        kept["hook"] = client.webhooks_register(wop.RegisterWebhookRequest(**HOOK))
        return [kept["hook"].url, kept["hook"].eventTypes]

    yield "capabilities", capabilities
    yield "openapi", lambda: client.discovery_openapi()["openapi"]
    yield "create", lambda: bool(start("run", **PASS))
    yield "get", lambda: client.runs_get(kept["run"].runId).status
    yield "events", events
    yield "poll", lambda: [event.type for event in client.runs_poll_events(kept["run"].runId).events]
    yield "fork", fork
    yield "delay", lambda: bool(start("slow", workflowId="conformance-delay", inputs={"delayMs": 20_000}))
    yield "cancel", lambda: client.runs_cancel(kept["slow"].runId).status
    yield "register", register
    yield "unregister", lambda: client.webhooks_unregister(kept["hook"].subscriptionId)
    yield "agents", lambda: [agent.agentId for agent in client.agents_list()]
    yield "agent", lambda: client.agents_get("memoranda.conformance").persona
    if hasattr(client, "proposals_list"):
        yield from later_calls(client)


def later_calls(client: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the methods that only version 2 has."""
    kept: dict[str, Any] = {}

    def submit() -> Any:
        kept["draft"] = client.proposals_submit(wop.SubmitProposalRequest(kind="automation", artifact=JOB, title="A"))
        return kept["draft"].state

    def apply() -> Any:
        draft = client.proposals_get(kept["draft"].id)
        return client.proposals_apply(draft.id, artifact_digest=draft.artifactDigest).state

    revision = wop.ReviseProposalRequest(title="B")
    yield "runs", lambda: len(client.runs_list(limit=2).runs)
    yield "submit", submit
    yield "proposals", lambda: kept["draft"].id in [one.id for one in client.proposals_list().items]
    yield "revise", lambda: client.proposals_revise(kept["draft"].id, revision).state
    yield "apply", apply


def main(url: str, key: str) -> None:
    client = wop.OpenwopClient(base_url=url, api_key=key)
    print(json.dumps({name: call() for name, call in calls(client)}))


main(*sys.argv[1:])
