"""Recognition of artifacts with equal or nearly equal behaviour.

Names are ignored. The behaviour of a chain is its tools in order; of a prompt, its words; of an automation, its
workflow and times; of an agent, its tools and instructions. An artifact of any other shape only equals itself.

Fingerprints find equal behaviour, similarities find nearly equal behaviour. The thresholds are shares from 0 to 1 and
were set so that a person would call both artifacts the same. Unknown fields never make two artifacts different.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from memoranda.consolidation.text.corpus import content_words, markers, numbers
from memoranda.consolidation.text.similar import jaccard_similarity
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput
from memoranda.model.cron import normal_form

# The least shares of common order, words or tools that make two artifacts nearly equal.
CHAIN_SHARE: Final = 0.8
WORDS_SHARE: Final = 0.7
TOOLS_SHARE: Final = 0.8
# Minutes between two automations of one workflow that are nearly equal.
_NEAR_MINUTES: Final = 30
# Items of a chain that are compared; the comparison takes quadratic time.
_CHAIN_LIMIT: Final = 200

# An id, a kind, and an artifact.
KnownArtifact = tuple[str, str, Mapping[str, object]]


def fingerprint(kind: str, artifact: Mapping[str, object]) -> str:
    """Return a fingerprint that is equal for artifacts with the same behaviour."""
    does = _describe_behaviour(kind, artifact)
    value = (
        {"kind": kind, "does": does}
        if does is not None
        else {"kind": kind, "artifact": dict(artifact)}
    )
    return hashlib.sha256(json_text.canonical(value)).hexdigest()


def find_duplicate(
    kind: str, artifact: Mapping[str, object], artifacts: Iterable[KnownArtifact]
) -> str | None:
    """Return the id of the most similar known artifact; None if none has nearly the same behaviour."""
    ours = fingerprint(kind, artifact)
    rated = []
    for name, other_kind, other in artifacts:
        if other_kind == kind:
            score = 1.0 if fingerprint(kind, other) == ours else _similarity(kind, artifact, other)
            if score > 0.0:
                rated.append((-score, name))
    return min(rated)[1] if rated else None


def _describe_behaviour(kind: str, artifact: Mapping[str, object]) -> list[Any] | None:
    """Return the behaviour of an artifact as JSON; None for an unknown shape."""
    if kind == "workflow-chain-pack":
        return _chain_features(artifact)
    if kind == "prompt-template":
        text = artifact.get("text")
        return [artifact.get("kind"), *_text_features(text)] if isinstance(text, str) else None
    if kind == "automation":
        return _schedule_features(artifact)
    agents = _objects(artifact.get("agents"))
    if agents is None:
        return None
    return sorted(
        (
            [
                sorted(_texts(a.get("toolAllowlist"))),
                *_text_features(str(a.get("systemPrompt", ""))),
            ]
            for a in agents
        ),
        key=repr,
    )


def _text_features(text: str) -> list[list[str]]:
    return [list(content_words(text)), sorted(numbers(text)), sorted(markers(text))]


def _chain_features(artifact: Mapping[str, object]) -> list[Any] | None:
    features = []
    for chain in _objects(artifact.get("chains")) or ():
        dag = chain.get("dag")
        nodes = _objects(dag.get("nodes")) if isinstance(dag, Mapping) else None
        if nodes is None or not isinstance(dag, Mapping):
            return None
        index_by_id = {str(node.get("id")): index for index, node in enumerate(nodes)}
        edges = [
            [index_by_id.get(str(edge.get(side)), -1) for side in ("from", "to")]
            for edge in _objects(dag.get("edges")) or ()
        ]
        features.append([[str(node.get("typeId")) for node in nodes], sorted(edges)])
    return features or None


def _schedule_features(artifact: Mapping[str, object]) -> list[object] | None:
    schedule, workflow = artifact.get("schedule"), artifact.get("workflowId")
    if (
        not isinstance(schedule, Mapping)
        or not isinstance(workflow, str)
        or not isinstance(schedule.get("cron"), str)
    ):
        return None
    try:
        when = normal_form(schedule["cron"])
    except InvalidInput:
        return None
    zone, inputs = str(schedule.get("timezone", "UTC")), artifact.get("inputs") or {}
    if not isinstance(inputs, Mapping):
        return None
    return [workflow, zone, dict(inputs), when]


def _similarity(kind: str, artifact: Mapping[str, object], other: Mapping[str, object]) -> float:
    """Return the similarity of two artifacts of one kind; 0 if they are not nearly equal."""
    ours, other_parts = _describe_behaviour(kind, artifact), _describe_behaviour(kind, other)
    if ours is None or other_parts is None:
        return 0.0
    if kind == "workflow-chain-pack":
        share = (
            _subsequence_share(ours[0][0], other_parts[0][0])
            if len(ours) == len(other_parts) == 1
            else 0.0
        )
        return share if share >= CHAIN_SHARE else 0.0
    if kind == "prompt-template":
        return _text_similarity(ours[1:], other_parts[1:])
    if kind == "automation":
        return _schedule_similarity(ours, other_parts)
    return _agent_similarity(artifact, other, ours, other_parts)


def _agent_similarity(
    artifact: Mapping[str, Any], other: Mapping[str, Any], ours: list[Any], other_parts: list[Any]
) -> float:
    tools, words = (
        jaccard_similarity(
            *(
                {item for agent in agents for item in agent[feature]}
                for agents in (ours, other_parts)
            )
        )
        for feature in (0, 1)
    )
    names = [
        sorted(str(agent.get("agentId")) for agent in _objects(pack.get("agents")) or ())
        for pack in (artifact, other)
    ]
    # Agents with different purposes may have the same tools.
    is_same_purpose = names[0] == names[1] or words >= TOOLS_SHARE
    return tools if tools >= TOOLS_SHARE and is_same_purpose else 0.0


def _text_similarity(ours: Sequence[Any], other_texts: Sequence[Any]) -> float:
    if ours[1:] != other_texts[1:]:  # another number or marker ("not") changes the meaning
        return 0.0
    share = jaccard_similarity(set(ours[0]), set(other_texts[0]))
    return share if share >= WORDS_SHARE else 0.0


def _schedule_similarity(ours: list[Any], other_schedule: list[Any]) -> float:
    if ours[:3] != other_schedule[:3] or ours[3][2:] != other_schedule[3][2:]:
        return 0.0
    starts = [times[3][1][0] * 60 + times[3][0][0] for times in (ours, other_schedule)]
    is_once = all(len(times[3][0]) == len(times[3][1]) == 1 for times in (ours, other_schedule))
    return 0.9 if is_once and abs(starts[0] - starts[1]) <= _NEAR_MINUTES else 0.0


def _subsequence_share(first: Sequence[str], second: Sequence[str]) -> float:
    """Return twice the length of the longest common subsequence, divided by the sum of both lengths."""
    first, second = first[:_CHAIN_LIMIT], second[:_CHAIN_LIMIT]
    row = [0] * (len(second) + 1)
    for item in first:
        diagonal = 0
        for column, other in enumerate(second, 1):
            diagonal, row[column] = (
                row[column],
                diagonal + 1 if item == other else max(row[column], row[column - 1]),
            )
    return 2 * row[-1] / (len(first) + len(second)) if first or second else 0.0


def _objects(value: object) -> list[Mapping[str, object]] | None:
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        return None
    return value


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
