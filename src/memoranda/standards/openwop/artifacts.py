"""The artifacts of proposals: agent packs, workflow-chain packs, prompt templates and automations.

Each kind has a check by the RFC that defines it. A malformed artifact may be stored and revised, but not applied (422).

A check walks the artifact from the outside to the inside, and carries the place of each value (`location`, such as
`chains[2].edges`) only for the message of the error. It checks what a person cannot see while reviewing: types,
lengths, unique names, references to things that exist, and paths that would leave the pack. Whether the content is wise
stays the decision of the person.

To add a kind: write a check that takes the artifact, raise InvalidInput with the place for everything it refuses, and
add it to `_CHECKS`. Limits are those of the schema that the comment names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from memoranda.errors import InvalidInput
from memoranda.model.calendar import load_zone
from memoranda.model.cron import check_cron
from memoranda.standards.openwop.fields import (
    SEMVER,
    check_boolean,
    check_closed_object,
    check_integer,
    check_object,
    check_pattern,
    check_text,
    check_texts,
    check_word,
    require_fields,
)
from memoranda.standards.openwop.inventory import check_shape

Artifact = dict[str, Any]

PROMPT_KINDS: Final = ("system", "user", "few-shot", "schema-hint")
VARIABLE_TYPES: Final = ("string", "number", "boolean", "array", "object")
VARIABLE_SOURCES: Final = ("input", "variable", "secret", "context")

# Characters; prompt-template.schema.json.
MAX_TEMPLATE_CHARS: Final = 65_536
MAX_NAME_CHARS: Final = 200
MAX_DESCRIPTION_CHARS: Final = 2000
# Characters. agent-manifest.schema.json sets no limit for prompts; this is the limit of a template.
MAX_PROMPT_CHARS: Final = 65_536
# Parts of a pack, as many as one person can review.
MAX_PARTS: Final = 1000

_PACK: Final = re.compile(
    r"(?:core|vendor|community|private|local)\.[a-z][a-z0-9_-]*(?:\.[a-z][a-zA-Z0-9_-]*)+", re.ASCII
)
_TYPE_ID: Final = re.compile(r"[a-z][a-zA-Z0-9._-]*", re.ASCII)
_TEMPLATE_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}", re.ASCII)
_VARIABLE: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}", re.ASCII)
_MANIFEST_FIELDS: Final = (
    "agentId",
    "persona",
    "modelClass",
    "systemPrompt",
    "systemPromptRef",
    "toolAllowlist",
    "memoryShape",
    "confidence",
    "handoff",
    "label",
    "description",
)
_CHAIN_FIELDS: Final = ("chainId", "version", "label", "description", "parameters", "dag")
_TEMPLATE_FIELDS: Final = (
    "templateId",
    "version",
    "kind",
    "text",
    "name",
    "description",
    "variables",
    "modelHints",
    "tags",
    "meta",
)
_VARIABLE_FIELDS: Final = (
    "name",
    "type",
    "required",
    "source",
    "extractPath",
    "defaultValue",
    "description",
)
_JOB_FIELDS: Final = ("workflowId", "schedule", "inputs", "name", "description")


def check_artifact(kind: str, value: object) -> Artifact:
    """Check the artifact by its kind and return it. Raises InvalidInput that names the field."""
    check = _CHECKS.get(kind)
    if check is None:
        raise InvalidInput(f"kind must be one of {', '.join(_CHECKS)}")
    artifact = check_object(value, "artifact")
    check(artifact)
    return artifact


# --- agent packs (RFC 0003) --------------------------------------------------------------------------


def _check_agent_pack(pack: Artifact) -> None:
    """Check an agent pack. Raises InvalidInput."""
    require_fields(pack, ("name", "version", "agents"), "artifact")
    name = check_pattern(pack["name"], _PACK, "artifact.name", "vendor.acme.research-agents")
    check_pattern(pack["version"], SEMVER, "artifact.version", "1.0.0")
    for index, agent in enumerate(_check_parts(pack["agents"], "artifact.agents")):
        location = f"artifact.agents[{index}]"
        check_manifest(agent, location)
        if not str(agent["agentId"]).startswith(f"{name}."):
            # RFC 0003 §B: agents share the pack's namespace.
            raise InvalidInput(f"{location}.agentId must begin with the pack's name")
    _check_unique([agent["agentId"] for agent in pack["agents"]], "artifact.agents", "agentId")


def check_manifest(value: object, location: str) -> dict[str, Any]:
    """Check an AgentManifest and return it. Raises InvalidInput."""
    manifest = check_closed_object(value, _MANIFEST_FIELDS, location)
    require_fields(manifest, ("agentId", "persona", "modelClass"), location)
    check_pattern(
        manifest["agentId"], _PACK, f"{location}.agentId", "vendor.acme.research-agents.summarizer"
    )
    check_text(manifest["persona"], f"{location}.persona", MAX_NAME_CHARS)
    check_text(manifest["modelClass"], f"{location}.modelClass", MAX_NAME_CHARS)
    prompts = [name for name in ("systemPrompt", "systemPromptRef") if name in manifest]
    if len(prompts) != 1:
        raise InvalidInput(f"{location} must have exactly one of systemPrompt and systemPromptRef")
    check_text(manifest[prompts[0]], f"{location}.{prompts[0]}", MAX_PROMPT_CHARS)
    references = {
        "systemPromptRef": manifest.get("systemPromptRef"),
        **check_object(manifest.get("handoff", {}), location),
    }
    for name, reference in references.items():
        if reference is not None:
            _check_inside(reference, f"{location}.{name}")
    if "toolAllowlist" in manifest:
        check_texts(
            manifest["toolAllowlist"],
            f"{location}.toolAllowlist",
            max_items=MAX_PARTS,
            max_chars=MAX_NAME_CHARS,
        )
    check_shape(manifest.get("memoryShape", {}), f"{location}.memoryShape")
    return manifest


def _check_inside(value: object, location: str) -> None:
    """Check a path within the pack (RFC 0003 §C). Raises InvalidInput."""
    path = check_text(value, location, MAX_NAME_CHARS)
    if path.startswith(("/", "\\")) or "\\" in path or ":" in path or ".." in path.split("/"):
        raise InvalidInput(f"{location} must stay inside the pack")


# --- workflow-chain packs (RFC 0013) -----------------------------------------------------------------


def _check_chain_pack(pack: Artifact) -> None:
    """Check a workflow-chain pack. Raises InvalidInput."""
    require_fields(pack, ("name", "version", "kind", "engines", "chains"), "artifact")
    check_pattern(pack["name"], _PACK, "artifact.name", "vendor.acme.editor-presets")
    check_pattern(pack["version"], SEMVER, "artifact.version", "1.0.0")
    check_word(pack["kind"], ("workflow-chain",), "artifact.kind")
    engines = check_object(pack["engines"], "artifact.engines")
    check_text(engines.get("openwop"), "artifact.engines.openwop", MAX_NAME_CHARS)
    for index, chain in enumerate(_check_parts(pack["chains"], "artifact.chains")):
        _check_chain(chain, f"artifact.chains[{index}]")
    _check_unique([chain["chainId"] for chain in pack["chains"]], "artifact.chains", "chainId")


def _check_chain(value: object, location: str) -> None:
    """Check one chain and its graph. Raises InvalidInput."""
    chain = check_object(value, location)
    require_fields(chain, _CHAIN_FIELDS, location)
    check_pattern(chain["chainId"], _TYPE_ID, f"{location}.chainId", "vendor.acme.generateReport")
    check_pattern(chain["version"], SEMVER, f"{location}.version", "1.0.0")
    check_text(chain["label"], f"{location}.label", MAX_NAME_CHARS)
    if (
        not isinstance(chain["description"], str)
        or len(chain["description"]) > MAX_DESCRIPTION_CHARS
    ):
        raise InvalidInput(
            f"{location}.description must be a string of at most {MAX_DESCRIPTION_CHARS} characters"
        )
    check_object(chain["parameters"], f"{location}.parameters")
    dag = check_closed_object(chain["dag"], ("nodes", "edges"), f"{location}.dag")
    nodes = _check_parts(dag.get("nodes"), f"{location}.dag.nodes")
    names = [
        _check_node(node, f"{location}.dag.nodes[{index}]") for index, node in enumerate(nodes)
    ]
    _check_unique(names, f"{location}.dag.nodes", "id")
    if len(names) > 1 and "edges" not in dag:
        raise InvalidInput(f"{location}.dag.edges is required when there are several nodes")
    if "edges" in dag:
        _check_edges(dag["edges"], frozenset(names), f"{location}.dag.edges")


def _check_node(value: object, location: str) -> str:
    """Check a node and return its id. Raises InvalidInput."""
    node = check_object(value, location)
    require_fields(node, ("id", "typeId"), location)
    check_pattern(node["typeId"], _TYPE_ID, f"{location}.typeId", "core.llm.chat")
    if "workflowId" in check_object(node.get("config", {}), f"{location}.config"):
        # RFC 0133 §1.2: a fragment must not pin a concrete workflow.
        raise InvalidInput(f"{location}.config must not pin a workflowId")
    return check_text(node["id"], f"{location}.id", MAX_NAME_CHARS)


def _check_edges(value: object, names: frozenset[str], location: str) -> None:
    """Check that all edges connect known nodes. Raises InvalidInput."""
    if not isinstance(value, list) or len(value) > MAX_PARTS:
        raise InvalidInput(f"{location} must be an array of at most {MAX_PARTS} edges")
    for index, edge in enumerate(value):
        for side in ("from", "to"):
            end = check_text(
                check_object(edge, f"{location}[{index}]").get(side),
                f"{location}[{index}].{side}",
                MAX_NAME_CHARS,
            )
            # An end may include a port of its node: `node.port`.
            if end not in names and end.rpartition(".")[0] not in names:
                raise InvalidInput(f"{location}[{index}].{side} must be one of the nodes")


# --- prompt templates (RFC 0027) ---------------------------------------------------------------------


def _check_prompt_template(template: Artifact) -> None:
    """Check a prompt template. Raises InvalidInput."""
    check_closed_object(template, _TEMPLATE_FIELDS, "artifact")
    require_fields(template, ("templateId", "version", "kind", "text"), "artifact")
    check_pattern(template["templateId"], _TEMPLATE_ID, "artifact.templateId", "writer.v2")
    check_pattern(template["version"], SEMVER, "artifact.version", "1.0.0")
    check_word(template["kind"], PROMPT_KINDS, "artifact.kind")
    check_text(template["text"], "artifact.text", MAX_TEMPLATE_CHARS)
    for name, limit in (("name", MAX_NAME_CHARS), ("description", MAX_DESCRIPTION_CHARS)):
        if name in template:
            check_text(template[name], f"artifact.{name}", limit)
    if "tags" in template:
        check_texts(template["tags"], "artifact.tags", max_items=32, max_chars=64)
    variables = template.get("variables", [])
    if not isinstance(variables, list) or len(variables) > MAX_PARTS:
        raise InvalidInput(f"artifact.variables must be an array of at most {MAX_PARTS} variables")
    for index, variable in enumerate(variables):
        _check_variable(variable, f"artifact.variables[{index}]")
    _check_unique([variable["name"] for variable in variables], "artifact.variables", "name")


def _check_variable(value: object, location: str) -> None:
    """Check a variable of a prompt template. Raises InvalidInput."""
    variable = check_closed_object(value, _VARIABLE_FIELDS, location)
    require_fields(variable, ("name", "type", "required"), location)
    check_pattern(variable["name"], _VARIABLE, f"{location}.name", "customer_name")
    check_word(variable["type"], VARIABLE_TYPES, f"{location}.type")
    check_boolean(variable["required"], f"{location}.required")
    check_word(variable.get("source", "input"), VARIABLE_SOURCES, f"{location}.source")


# --- automations (RFC 0052) --------------------------------------------------------------------------


def _check_automation(job: Artifact) -> None:
    """Check an automation. Raises InvalidInput."""
    check_closed_object(job, _JOB_FIELDS, "artifact")
    require_fields(job, ("workflowId", "schedule"), "artifact")
    check_text(job["workflowId"], "artifact.workflowId", MAX_NAME_CHARS)
    check_object(job.get("inputs", {}), "artifact.inputs")
    for name in ("name", "description"):
        if name in job:
            check_text(job[name], f"artifact.{name}", MAX_DESCRIPTION_CHARS)
    schedule = check_closed_object(
        job["schedule"], ("cron", "delayMs", "timezone"), "artifact.schedule"
    )
    if ("cron" in schedule) == ("delayMs" in schedule):
        raise InvalidInput("artifact.schedule must have exactly one of cron and delayMs")
    if "delayMs" in schedule:
        check_integer(schedule["delayMs"], "artifact.schedule.delayMs", least=0)
    else:
        check_cron(check_text(schedule["cron"], "artifact.schedule.cron", MAX_NAME_CHARS))
    if "timezone" in schedule:
        field = "artifact.schedule.timezone"
        load_zone(check_text(schedule["timezone"], field, MAX_NAME_CHARS), field)


_CHECKS: Final[Mapping[str, Callable[[Artifact], None]]] = {
    "agent-pack": _check_agent_pack,
    "workflow-chain-pack": _check_chain_pack,
    "prompt-template": _check_prompt_template,
    "automation": _check_automation,
}


def _check_parts(value: object, location: str) -> list[Any]:
    """Return a non-empty array of limited length. Raises InvalidInput."""
    if not isinstance(value, list) or not 0 < len(value) <= MAX_PARTS:
        raise InvalidInput(f"{location} must be an array of 1 to {MAX_PARTS} objects")
    return value


def _check_unique(names: Sequence[object], location: str, field: str) -> None:
    """Raise InvalidInput if a name occurs twice."""
    if len(set(names)) != len(names):
        raise InvalidInput(f"{location} must have each {field} once")
