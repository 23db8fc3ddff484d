"""Workflows of nodes for conformance suites of openwop: they do nothing but begin and end, one node after the other.

A suite starts one by its id, and follows its log. A workflow that takes time ends in the background, unless it is
cancelled before.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import msgspec

from memoranda.errors import MemorandaError
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.openwop import runs
from memoranda.service.openwop.runs import Run
from memoranda.standards.openwop.fields import check_integer
from memoranda.storage.engine.contract import Unit

# Milliseconds that a delayed workflow takes by default, and at most.
DELAY_MS: Final = 1000
MAX_DELAY_MS: Final = 30_000


class NodeWorkflow(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a workflow in their order. A delayed one waits in its last node for `inputs.delayMs`."""

    nodes: tuple[str, ...]
    is_delayed: bool = False
    # The last node fails, and with it the run.
    is_failing: bool = False
    # Inputs that become variables of the run, with their types.
    echoed: Mapping[str, str] = {}


WORKFLOWS: Final[Mapping[str, NodeWorkflow]] = {
    "conformance-identity": NodeWorkflow(nodes=("echo",), echoed={"payload": "object"}),
    "conformance-failure": NodeWorkflow(nodes=("fail",), is_failing=True),
    "conformance-idempotent": NodeWorkflow(nodes=("only",)),
    "conformance-delay": NodeWorkflow(nodes=("wait",), is_delayed=True),
    "conformance-cancellable": NodeWorkflow(nodes=("wait",), is_delayed=True),
    "conformance-multi-node": NodeWorkflow(nodes=("a", "b", "c")),
}
_FAILURE: Final = {"code": "conformance_failure", "message": "This workflow always fails."}


def describe_workflow(workflow_id: str, workflow: NodeWorkflow) -> dict[str, Any]:
    """Return the definition of a workflow (workflow-definition.schema.json)."""
    delay = {"delayMs": "number"} if workflow.is_delayed else {}
    return {
        "id": workflow_id,
        "name": workflow_id,
        "version": "1.0.0",
        "nodes": [
            {
                "id": node,
                "typeId": "vendor.memoranda.noop",
                "name": node,
                "position": {"x": 0, "y": at},
                "config": {},
                "inputs": {},
            }
            for at, node in enumerate(workflow.nodes)
        ],
        "edges": [
            {"id": f"{source}-{target}", "sourceNodeId": source, "targetNodeId": target}
            for source, target in pairwise(workflow.nodes)
        ],
        "triggers": [{"id": "manual", "type": "manual"}],
        "variables": [
            {"name": name, "type": kind} for name, kind in {**workflow.echoed, **delay}.items()
        ],
        "metadata": {},
        "settings": {},
    }


def run_nodes(
    context: Context,
    access: Access,
    workflow_id: str,
    /,
    inputs: Mapping[str, Any],
    **about: Any,
) -> Run:
    """Run a workflow of nodes, and return its run, which may not have ended yet. `about`: tags and metadata."""
    workflow = WORKFLOWS[workflow_id]
    delay_ms = 0
    if workflow.is_delayed:
        delay_ms = check_integer(inputs.get("delayMs", DELAY_MS), "inputs.delayMs", least=0)

    def work(unit: Unit) -> Run:
        now = context.clock()
        run = runs.begin(unit, workflow_id=workflow_id, now=now, access=access, **about)
        for node in workflow.nodes:
            runs.emit(unit, run.run_id, "node.started", {}, now=now, node_id=node)
            if workflow.is_failing:
                code = {"code": _FAILURE["code"]}
                runs.emit(unit, run.run_id, "node.failed", code, now=now, node_id=node)
                return runs.finish(unit, run, now=now, status="failed", error=_FAILURE)
            if not delay_ms:
                runs.emit(unit, run.run_id, "node.completed", {}, now=now, node_id=node)
        variables = {name: inputs[name] for name in workflow.echoed if name in inputs}
        return run if delay_ms else runs.finish(unit, run, now=now, variables=variables)

    run = context.engine.write(access.default_tenant, work)
    if delay_ms:
        seconds = min(delay_ms, MAX_DELAY_MS) / 1000
        timer = threading.Timer(seconds, _end, (context, run, workflow.nodes[-1]))
        timer.daemon = True
        timer.start()
    return run


def _end(context: Context, run: Run, node: str) -> None:
    """End a delayed run, unless it has ended already or the store is closed."""

    def work(unit: Unit) -> None:
        current = runs.load(unit, run.run_id)
        if current.status in runs.TERMINAL:
            return
        now = context.clock()
        runs.emit(unit, run.run_id, "node.completed", {}, now=now, node_id=node)
        runs.finish(unit, current, now=now)

    try:
        context.engine.write(run.tenant, work)
    except MemorandaError:
        return
