"""Warnings about valid grains that do not follow a recommendation (SHOULD) of sections 6.11, 17.2, 23, 24 to 27.

A warning never stops a write; it is returned together with the result, for the program that wrote the grain. A MUST of
the specification does not belong here: it is checked where grains are made. Each sentence names the field and what to
do, and its section is in the comment or the docstring beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from memoranda.standards.oms import registry
from memoranda.standards.oms.fields import INDEX_FIELDS, REMOVED_FIELDS

Fields = Mapping[str, object]


def warnings_for(fields: Fields) -> tuple[str, ...]:
    """Return one sentence for each recommendation that the fields, under their full names, do not follow."""
    warnings = list(_check_common(fields))
    name = fields.get("type")
    grain_type = registry.BY_NAME.get(name) if isinstance(name, str) else None
    if grain_type is not None and grain_type.byte in _BY_TYPE:
        warnings.extend(_BY_TYPE[grain_type.byte](fields))
    return tuple(warnings)


def _check_common(fields: Fields) -> Iterator[str]:
    """Yield the warnings for grains of any type."""
    for name in sorted((INDEX_FIELDS | REMOVED_FIELDS) & fields.keys()):
        # Section 5.6: writers MUST NOT embed these; a reader can only ignore them.
        yield f"{name} belongs to the store's index and is ignored inside a grain"
    relation = fields.get("relation")
    if (
        isinstance(relation, str)
        and relation.startswith("mg:")
        and relation not in registry.MG_RELATIONS
    ):
        yield "relation uses the reserved prefix mg: for a name that is not in the vocabulary"
    tags = fields.get("structural_tags")
    if isinstance(tags, list) and "mg:protected" in tags and "invalidation_policy" not in fields:
        # Section 23.9: the tag MUST NOT be the sole enforcement mechanism.
        yield "the tag mg:protected protects nothing without an invalidation_policy"
    if fields.get("source_type") in registry.TIMELESS_SOURCES:
        yield from _check_timeless(fields)
    if relation == "mg:delegates_to":
        yield from _check_delegation(fields)


def _check_timeless(fields: Fields) -> Iterator[str]:
    """Yield the warnings for knowledge that has no time or user."""
    # Section 27.3.
    source = fields["source_type"]
    for name in ("user_id", "valid_to"):
        if name in fields:
            yield f"{name} should be absent when source_type is {source}"
    if fields.get("confidence") != 1.0:
        yield f"confidence should be 1.0 when source_type is {source}"
    policy = fields.get("invalidation_policy")
    if not isinstance(policy, dict) or policy.get("mode") != "locked":
        yield f"invalidation_policy should be locked when source_type is {source}"


def _check_delegation(fields: Fields) -> Iterator[str]:
    """Yield the warnings for a delegation of authority."""
    # Section 6.11 recommends both fields.
    namespaces = fields.get("authorized_namespaces")
    if isinstance(namespaces, list) and "*" in namespaces:
        yield "authorized_namespaces should name namespaces rather than all of them"
    if "delegation_depth" not in fields:
        yield "delegation_depth should be given: without it the authority may be passed on without end"


# Section 27.1: phase → fields that the table says to omit.
_OMITTED: Final[Mapping[str | None, tuple[str, ...]]] = {
    "definition": ("tool_call_id", "call_batch_id", "derived_from"),
    "call": ("tool_description", "input_schema", "output_schema", "strict", "derived_from"),
    "result": (
        "tool_name",
        "tool_description",
        "input_schema",
        "output_schema",
        "strict",
        "tool_type",
        "tool_version",
        "input",
    ),
    None: ("tool_description", "input_schema", "output_schema", "strict", "derived_from"),
}


def _check_action(fields: Fields) -> Iterator[str]:
    """Yield the warnings for an Action."""
    phase = fields.get("action_phase")
    if not (phase is None or isinstance(phase, str)):
        return
    for name in _OMITTED.get(phase, ()):
        if name in fields:
            yield f"{name} should be left out of an action of phase {phase or 'complete'}"
    if phase == "call" and "tool_call_id" not in fields:
        yield "tool_call_id is recommended on a call, so that its result can be matched"


def _check_observation(fields: Fields) -> Iterator[str]:
    """Yield the warnings for an Observation."""
    observer = fields.get("observer_type")
    if not isinstance(observer, str):
        return
    mode = fields.get("observation_mode")
    if observer in registry.MODEL_OBSERVERS and "observer_model" not in fields:
        # Section 17.2: SHOULD warn, MUST NOT reject.
        yield f"observer_model is recommended when the observer is a {observer}"
    if (
        observer in registry.COGNITIVE_OBSERVERS
        and mode == "reflective"
        and "observation_scope" not in fields
    ):
        # Section 26: a conformance warning at level 2.
        yield "observation_scope should be given on a reflective observation"
    if mode == "reflective" and "derived_from" not in fields:
        yield "derived_from should name the grains that a reflective observation looked back at"
    context = fields.get("context")
    if mode == "active" and not (isinstance(context, dict) and "probe" in context):
        yield "context.probe should record what an active observation asked"
    source = _expected_source(observer)
    if source is not None and fields.get("source_type", source) != source:
        yield f"source_type should be {source} when the observer is {observer}"
    is_registered = (
        observer in registry.PHYSICAL_OBSERVERS or observer in registry.COGNITIVE_OBSERVERS
    )
    if observer and not is_registered and ":" not in observer:
        yield "a custom observer_type should have a prefix, as in acme:thermal"


def _expected_source(observer: str) -> str | None:
    """Return the source type that fits an observer, or None if several do."""
    if observer in registry.PHYSICAL_OBSERVERS:
        return "sensor"
    if observer in registry.MODEL_OBSERVERS:
        return "agent_inferred"
    return "user_explicit" if observer == "human" else None


_BY_TYPE: Final = {registry.ACTION_BYTE: _check_action, 0x06: _check_observation}
