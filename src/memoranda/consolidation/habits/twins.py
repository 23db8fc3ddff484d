"""Whether two artifacts would do the same: equal in what they do, or nearly so.

What an artifact does is what counts, not how it is named: the tools of a chain in their order, the words of a prompt,
the workflow and the times of an automation, the tools and instructions of an agent. An artifact of another shape, such
as one that a person revised beyond this, is only equal to itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from memoranda.consolidation.text.reading import content_words, markers, numbers
from memoranda.consolidation.text.similar import jaccard
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput
from memoranda.model.cron import meaning

# A chain that shares so much of its order, a prompt or an agent that shares so many words or tools, is the same again.
CHAIN_SHARE: Final = 0.8
WORDS_SHARE: Final = 0.7
TOOLS_SHARE: Final = 0.8
# An automation of the same workflow on the same days this close.
_NEAR_MINUTES: Final = 30
_CHAIN_LIMIT: Final = 200

# An id, a kind, and an artifact.
Known = tuple[str, str, Mapping[str, Any]]


def fingerprint(kind: str, artifact: Mapping[str, Any]) -> str:
    """The same for artifacts that do the same."""
    does = _does(kind, artifact)
    value = (
        {"kind": kind, "does": does}
        if does is not None
        else {"kind": kind, "artifact": dict(artifact)}
    )
    return hashlib.sha256(json_text.canonical(value)).hexdigest()


def duplicate_of(kind: str, artifact: Mapping[str, Any], known: Iterable[Known]) -> str | None:
    """The id of the known artifact that does the same, or nearly the same; the smallest id of the nearest."""
    ours = fingerprint(kind, artifact)
    rated = []
    for name, other_kind, other in known:
        if other_kind == kind:
            score = 1.0 if fingerprint(kind, other) == ours else _likeness(kind, artifact, other)
            if score > 0.0:
                rated.append((-score, name))
    return min(rated)[1] if rated else None


def _does(kind: str, artifact: Mapping[str, Any]) -> list[Any] | None:
    if kind == "workflow-chain-pack":
        return _chains(artifact)
    if kind == "prompt-template":
        text = artifact.get("text")
        return [artifact.get("kind"), *_said(text)] if isinstance(text, str) else None
    if kind == "automation":
        return _times(artifact)
    agents = _objects(artifact.get("agents"))
    if agents is None:
        return None
    return sorted(
        (
            [sorted(_texts(a.get("toolAllowlist"))), *_said(str(a.get("systemPrompt", "")))]
            for a in agents
        ),
        key=repr,
    )


def _said(text: str) -> list[list[str]]:
    return [list(content_words(text)), sorted(numbers(text)), sorted(markers(text))]


def _chains(artifact: Mapping[str, Any]) -> list[Any] | None:
    found = []
    for chain in _objects(artifact.get("chains")) or ():
        dag = chain.get("dag")
        nodes = _objects(dag.get("nodes")) if isinstance(dag, Mapping) else None
        if nodes is None or not isinstance(dag, Mapping):
            return None
        places = {str(node.get("id")): place for place, node in enumerate(nodes)}
        edges = [
            [places.get(str(edge.get(side)), -1) for side in ("from", "to")]
            for edge in _objects(dag.get("edges")) or ()
        ]
        found.append([[str(node.get("typeId")) for node in nodes], sorted(edges)])
    return found or None


def _times(artifact: Mapping[str, Any]) -> list[Any] | None:
    schedule, workflow = artifact.get("schedule"), artifact.get("workflowId")
    if (
        not isinstance(schedule, Mapping)
        or not isinstance(workflow, str)
        or not isinstance(schedule.get("cron"), str)
    ):
        return None
    try:
        when = meaning(schedule["cron"])
    except InvalidInput:
        return None
    zone, inputs = str(schedule.get("timezone", "UTC")), artifact.get("inputs") or {}
    if not isinstance(inputs, Mapping):
        return None
    return [workflow, zone, dict(inputs), when]


def _likeness(kind: str, artifact: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """How alike two artifacts of a kind are; 0 below what counts as the same again."""
    ours, theirs = _does(kind, artifact), _does(kind, other)
    if ours is None or theirs is None:
        return 0.0
    if kind == "workflow-chain-pack":
        share = _common_share(ours[0][0], theirs[0][0]) if len(ours) == len(theirs) == 1 else 0.0
        return share if share >= CHAIN_SHARE else 0.0
    if kind == "prompt-template":
        return _same_words(ours[1:], theirs[1:])
    if kind == "automation":
        return _same_times(ours, theirs)
    return _same_agents(artifact, other, ours, theirs)


def _same_agents(
    artifact: Mapping[str, Any], other: Mapping[str, Any], ours: list[Any], theirs: list[Any]
) -> float:
    tools, words = (
        jaccard(*({item for agent in agents for item in agent[place]} for agents in (ours, theirs)))
        for place in (0, 1)
    )
    names = [
        sorted(str(agent.get("agentId")) for agent in _objects(each.get("agents")) or ())
        for each in (artifact, other)
    ]
    # Agents for other purposes may well share their tools.
    is_same_purpose = names[0] == names[1] or words >= TOOLS_SHARE
    return tools if tools >= TOOLS_SHARE and is_same_purpose else 0.0


def _same_words(ours: Sequence[Any], theirs: Sequence[Any]) -> float:
    if ours[1:] != theirs[1:]:  # another number or another "not" turns the meaning
        return 0.0
    share = jaccard(set(ours[0]), set(theirs[0]))
    return share if share >= WORDS_SHARE else 0.0


def _same_times(ours: list[Any], theirs: list[Any]) -> float:
    if ours[:3] != theirs[:3] or ours[3][2:] != theirs[3][2:]:
        return 0.0
    starts = [times[3][1][0] * 60 + times[3][0][0] for times in (ours, theirs)]
    is_once = all(len(times[3][0]) == len(times[3][1]) == 1 for times in (ours, theirs))
    return 0.9 if is_once and abs(starts[0] - starts[1]) <= _NEAR_MINUTES else 0.0


def _common_share(first: Sequence[str], second: Sequence[str]) -> float:
    """Twice the longest common subsequence, of the length of both."""
    first, second = first[:_CHAIN_LIMIT], second[:_CHAIN_LIMIT]
    row = [0] * (len(second) + 1)
    for item in first:
        diagonal = 0
        for place, other in enumerate(second, 1):
            diagonal, row[place] = (
                row[place],
                diagonal + 1 if item == other else max(row[place], row[place - 1]),
            )
    return 2 * row[-1] / (len(first) + len(second)) if first or second else 0.0


def _objects(value: object) -> list[Mapping[str, Any]] | None:
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        return None
    return value


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
