"""Grains to and from the neutral model.

`project` maps a grain of any of the ten types to the fields that the store filters, ranks and links by.
`from_projection` shows a memory of another standard as a grain. Such a view contains the original under
`context["memoranda:native"]`, so that importing it restores the original byte for byte. It does not depend on mutable
state, so its address is stable.

Ten types of grains are reduced to five kinds of memory (`_KINDS`), and each type has its own function for its text
(`_TEXTS`). The text must not be empty and must be stable: it is indexed, compared for duplicates and shown by all other
standards. A view as a grain must have the same address in every store, so `from_projection` uses nothing that can
change: no status, no successor, no time of export.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from memoranda.encoding.json_text import canonical as canonical_json
from memoranda.errors import GrainError, InvalidInput
from memoranda.model.instant import Instant, clamp
from memoranda.model.memory import (
    DERIVED_FROM,
    NATIVE_KEY,
    OMS,
    VISIBILITIES,
    Document,
    Kind,
    Projection,
    Relation,
    Scope,
    Visibility,
    unwrap_document,
    wrap_document,
)
from memoranda.model.oms_names import ADDRESS_PREFIX
from memoranda.model.titles import NAMES_KEY, collect_titles
from memoranda.standards.oms.grains import SIGNIFICANT_PREFIXES, Grain, encode, encode_unchecked
from memoranda.standards.oms.header import MAX_CREATED_AT_SEC
from memoranda.standards.oms.policy import protects_lineage
from memoranda.standards.oms.profile import SizeProfile
from memoranda.standards.oms.registry import BY_NAME, DEFAULT_NAMESPACE

STANDARD: Final = OMS
MEDIA_TYPE: Final = "application/vnd.oms.grain"
SIGNED_MEDIA_TYPE: Final = "application/vnd.oms.grain+cose"
IDENTITY_TAG: Final = "identity"
GOAL_BYTE: Final = 0x07
# Prefix of an object that is not text, so that a map never equals the text of its JSON.
NOT_TEXT: Final = "\x00"
# OMS has no visibility, so a tag expresses it; without one a grain is private.
VISIBILITY_TAG: Final = "visibility:"

# A view contains its original in base64 next to its text, so it needs more than the recommended size of a grain.
VIEWS: Final = SizeProfile(name="view", max_bytes=4 * 1_048_576, max_depth=32)

Fields = Mapping[str, Any]

# The relation of a grain that is a text without a triple: `from_projection` writes the kind there.
_TEXT_RELATIONS: Final = {
    "belief": ("semantic", "identity"),
    "fact": ("semantic", "identity"),
    "event": ("episodic",),
    "state": ("working",),
    "workflow": ("procedural",),
}

_KINDS: Final[dict[int, Kind]] = {
    0x01: "semantic",
    0x02: "episodic",
    0x03: "working",
    0x04: "procedural",
    0x05: "episodic",
    0x06: "episodic",
    0x07: "working",
    0x08: "semantic",
    0x09: "semantic",
    0x0A: "identity",
}


def owns(document: Document) -> bool:
    """Return True if a document is a grain."""
    return document.standard == STANDARD


def titles_of(fields: Fields) -> tuple[str, ...]:
    """Return the titles of a grain: its fields with names, its tags, and the names in its context."""
    context, tags = fields.get("context"), fields.get("structural_tags", ())
    names = context.get(NAMES_KEY) if isinstance(context, Mapping) else None
    own_tags = (tag for tag in tags if isinstance(tag, str) and tag != IDENTITY_TAG)
    return collect_titles(fields if names is None else {**fields, NAMES_KEY: names}, own_tags)


def project(grain: Grain, tenant: str) -> Projection:
    """Map a grain to the neutral model."""
    fields = grain.fields
    created = _to_instant(fields["created_at"])
    tags = tuple(tag for tag in fields.get("structural_tags", ()) if isinstance(tag, str))
    valid_to = fields.get("valid_to")
    return Projection(
        kind="identity" if IDENTITY_TAG in tags else _KINDS.get(grain.type_byte, "semantic"),
        text=text_of(grain),
        titles=titles_of(fields),
        scope=Scope(
            tenant=tenant,
            space="" if grain.namespace == DEFAULT_NAMESPACE else grain.namespace,
            user=_as_text(fields.get("user_id")),
            session=_as_text(fields.get("session_id")),
            visibility=_read_visibility(tags),
        ),
        created=created,
        observed=_to_instant(fields.get("timestamp_ms", created)),
        valid_from=_to_instant(fields.get("valid_from", created)),
        # OMS includes the last instant (section 15); the store excludes it.
        valid_to=None if valid_to is None else _to_instant(valid_to + 1),
        confidence=fields.get("confidence"),
        salience=fields.get("importance"),
        evidence_count=len(fields.get("provenance_chain", ())),
        tags=tags,
        relations=tuple(_read_relations(fields)),
        source=_as_text(fields.get("source_type")),
        actor=_as_text(fields.get("author_did")),
        subject=triple_of(grain)[0],
        basis=_strip_prefix(fields.get("processing_basis")),
        withdraws=_strip_prefix(fields.get("prior_consent"))
        if fields.get("is_withdrawal") is True
        else "",
        may_protect=protects_lineage(fields),
    )


def triple_of(grain: Grain) -> tuple[str, str, str]:
    """Return subject, relation and object. A consent is a triple too: the grantor permits (or revokes) the grantee."""
    fields = grain.fields
    if grain.type_byte == 0x0A:
        relation = "mg:revokes" if fields.get("is_withdrawal") else "mg:permits"
        return _as_text(fields.get("subject_did")), relation, _as_text(fields.get("grantee_did"))
    object_ = fields.get("object")
    if object_ in (None, "") and grain.type_byte == GOAL_BYTE:
        object_ = fields.get("description")
    object_text = (
        _as_text(object_)
        if isinstance(object_, str) or object_ is None
        else NOT_TEXT + _as_text(object_)
    )
    return _as_text(fields.get("subject")), _as_text(fields.get("relation")), object_text


def text_of(grain: Grain) -> str:
    """Return the content of a grain as text; never empty."""
    fields = grain.fields
    text = _text_alone(fields) if is_text(grain.type_name, fields) else ""
    text = text or _TEXTS.get(grain.type_byte, _common_text)(fields)
    return text or _common_text(fields) or grain.type_name


def is_text(type_name: str, fields: Fields) -> bool:
    """Return True for a text without a triple: a view of another standard's memory, or a grain that evolved from one.

    Its subject and its relation are ours (`from_projection`): nobody wrote them, so they are no part of its text.

    Memories without a triple get a subject and a relation when they become grains, because beliefs need both. Here they
    are recognised again, so that "alice semantic" does not become part of the text.
    """
    relation = fields.get("relation")
    if not isinstance(relation, str) or relation not in _TEXT_RELATIONS.get(type_name, ()):
        return False
    # "identity" is a relation that people use, too.
    return relation != "identity" or IDENTITY_TAG in fields.get("structural_tags", ())


def _text_alone(fields: Fields) -> str:
    """Return the text of a grain without a triple, from the field where its type holds it (`_content_fields`)."""
    context = fields.get("context")
    if (
        isinstance(context, Mapping)
        and isinstance(context.get("text"), str)
        and fields.get("type") == "state"
    ):
        return cast("str", context["text"])
    steps = fields.get("steps")
    if isinstance(steps, list):
        return _as_text(steps[0]) if len(steps) == 1 else _number_steps(steps)
    return _join_texts(fields, "object", "content")


def _common_text(fields: Fields) -> str:
    """Return the text of common fields, for any type."""
    return _join_texts(
        fields, "subject", "relation", "object", "content", "description", "conclusion"
    )


def _triple_text(fields: Fields) -> str:
    """Return the text of a belief: its triple and content."""
    return _join_texts(fields, "subject", "relation", "object", "content")


def _event_text(fields: Fields) -> str:
    """Return the content and the texts of all blocks."""
    blocks = [block for block in fields.get("content_blocks", ()) if isinstance(block, dict)]
    texts = [_as_text(block.get("text") or block.get("thinking")) for block in blocks]
    return " ".join(filter(None, [_as_text(fields.get("content")), *texts])) or _triple_text(fields)


def _state_text(fields: Fields) -> str:
    """Return the plan, the triple and the context."""
    plan = map(_as_text, fields.get("plan", ()))
    return " ".join(
        filter(None, [*plan, _triple_text(fields), _as_text(fields.get("context", {}))])
    )


def _workflow_text(fields: Fields) -> str:
    """Return the only step, or the trigger with numbered steps."""
    steps = fields.get("steps", ())
    if len(steps) == 1:
        return _as_text(steps[0])
    return f"{_as_text(fields.get('trigger'))}: {_number_steps(steps)}"


def _number_steps(steps: Sequence[object]) -> str:
    """Return steps on one line, numbered."""
    return "  ".join(f"{number}. {_as_text(step)}" for number, step in enumerate(steps, start=1))


def _action_text(fields: Fields) -> str:
    """Return the tool, its input and its outcome."""
    names = (
        "tool_name",
        "tool_description",
        "input",
        "content",
        "code",
        "stdout",
        "error",
        "object",
    )
    return _join_texts(fields, *names)


def _observation_text(fields: Fields) -> str:
    """Return the text of an observation: its triple and content, or else its observer."""
    return _join_texts(fields, "subject", "relation", "object", "content") or _join_texts(
        fields, "observer_id", "observer_type"
    )


def _goal_text(fields: Fields) -> str:
    """Return the description, object and criteria of a goal."""
    return _join_texts(fields, "description", "object", "criteria")


def _reasoning_text(fields: Fields) -> str:
    """Return the conclusion of a reasoning, its premises and thoughts."""
    return _join_texts(
        fields,
        "conclusion",
        "content",
        "premises",
        "thinking_content",
        "subject",
        "relation",
        "object",
    )


def _consensus_text(fields: Fields) -> str:
    """Return the agreed content and the triple of a consensus."""
    return _join_texts(fields, "agreed_content", "subject", "relation", "object")


def _consent_text(fields: Fields) -> str:
    """Return a sentence that names the grantor, the grantee and the scope of a consent."""
    verb = "revokes from" if fields.get("is_withdrawal") else "permits"
    scope = ", ".join(map(_as_text, fields.get("scope", ())))
    return f"{_as_text(fields.get('subject_did'))} {verb} {_as_text(fields.get('grantee_did'))}: {scope}"


_TEXTS: Final[dict[int, Callable[[Fields], str]]] = {
    0x01: _triple_text,
    0x02: _event_text,
    0x03: _state_text,
    0x04: _workflow_text,
    0x05: _action_text,
    0x06: _observation_text,
    0x07: _goal_text,
    0x08: _reasoning_text,
    0x09: _consensus_text,
    0x0A: _consent_text,
}


def from_projection(projection: Projection, original: Document) -> Grain:
    """Return a memory of another standard as a grain (DESIGN: kinds across the standards).

    If the fields are plainly valid, which `_is_plain` decides cheaply, the schema is not checked: most views take this
    path.
    """
    scope = projection.scope
    tags = [*projection.tags]
    if projection.kind == "identity" and IDENTITY_TAG not in tags:
        tags.append(IDENTITY_TAG)
    if scope.visibility != "private":
        tags.append(VISIBILITY_TAG + scope.visibility)
    fields: dict[str, Any] = {
        **_content_fields(projection),
        "subject": projection.subject or scope.user or scope.tenant,
        "relation": projection.kind,
        # A grain has four bytes for the seconds; the original inside has the time itself.
        "created_at": min(max(projection.created, 0), MAX_CREATED_AT_SEC * 1_000 + 999),
        "namespace": scope.space or DEFAULT_NAMESPACE,
        "valid_from": projection.valid_from,
        "source_type": "imported",
    }
    optional = {
        "user_id": scope.user,
        "session_id": scope.session,
        "author_did": projection.actor,
        "structural_tags": tags,
        "importance": projection.salience,
        "valid_to": None if projection.valid_to is None else projection.valid_to - 1,
    }
    fields |= {name: value for name, value in optional.items() if value not in (None, "", [])}
    if fields.get("valid_to", projection.valid_from) < projection.valid_from:
        del fields["valid_to"]
    fields["context"] = {**fields.get("context", {}), NATIVE_KEY: wrap_document(original)}
    if _is_plain(projection, original, fields, tags):
        return encode_unchecked(fields, BY_NAME[fields["type"]].byte, VIEWS)
    try:
        return encode(fields, profile=VIEWS)
    except GrainError:
        clean_fields = _strip_byte_order_marks(fields)
        # A name may consist of byte order marks only, so it needs a default again.
        return encode(
            {**clean_fields, "subject": clean_fields["subject"] or scope.tenant}, profile=VIEWS
        )


def _is_plain(projection: Projection, original: Document, fields: Fields, tags: list[str]) -> bool:
    """Return True if the fields of a view are plainly those of a grain, as nearly all are, and need no check."""
    if not projection.text:
        return False
    names = (fields["subject"], fields["relation"], fields["namespace"], *tags)
    original_names = (original.standard, original.name, original.media_type, projection.actor)
    scope = projection.scope
    if not "".join((projection.text, *names, *original_names, scope.user, scope.session)).isascii():
        return False
    shares = [
        share for share in (fields.get("confidence"), projection.salience) if share is not None
    ]
    if not all(type(share) is float and 0.0 <= share <= 1.0 for share in shares):
        return False
    return not any(tag.startswith(SIGNIFICANT_PREFIXES) for tag in tags)


def _strip_byte_order_marks(value: object) -> Any:
    """Return the value without byte order marks, which grains must not contain; the original keeps them."""
    if isinstance(value, str):
        return value.replace("\ufeff", "")
    if isinstance(value, dict):
        return {key: _strip_byte_order_marks(item) for key, item in value.items()}
    return [_strip_byte_order_marks(item) for item in value] if isinstance(value, list) else value


def _content_fields(projection: Projection) -> dict[str, Any]:
    """Return the fields that hold the content, by kind."""
    text, confidence = projection.text, projection.confidence
    if projection.kind == "episodic":
        return {"type": "event", "content": text, "timestamp_ms": projection.observed}
    if projection.kind == "procedural":
        return {"type": "workflow", "steps": [text], "trigger": projection.kind}
    if projection.kind == "working":
        return {"type": "state", "context": {"text": text}}
    return {
        "type": "belief",
        "object": text,
        "confidence": 1.0 if confidence is None else float(confidence),
    }


def unwrap(grain: Grain) -> Document | None:
    """Return the original document in a view of another standard, or None."""
    return unwrap_document(grain.fields.get("context"))


def _read_relations(fields: Fields) -> list[Relation]:
    """Return the links and sources of a grain."""
    relations = [
        Relation(type=_as_text(link.get("relation_type")), target=_as_text(link.get("hash")))
        for link in fields.get("related_to", ())
        if isinstance(link, dict)
    ]
    relations += [
        Relation(type=DERIVED_FROM, target=_as_text(source))
        for source in fields.get("derived_from", ())
    ]
    return [relation for relation in relations if relation.type and relation.target]


def _read_visibility(tags: tuple[str, ...]) -> Visibility:
    """Return the visibility that the tags express."""
    values = [tag.removeprefix(VISIBILITY_TAG) for tag in tags if tag.startswith(VISIBILITY_TAG)]
    # The narrowest of several: VISIBILITIES is sorted from narrow to wide.
    return next((visibility for visibility in VISIBILITIES if visibility in values), "private")


def _strip_prefix(value: object) -> str:
    """Return an address without its optional prefix."""
    return _as_text(value).removeprefix(ADDRESS_PREFIX)


def _join_texts(fields: Fields, *names: str) -> str:
    """Join the texts of these fields."""
    # Skip repeated texts: the object of a goal is often its description.
    texts = (_as_text(fields.get(name)) for name in names)
    return " ".join(dict.fromkeys(filter(None, texts)))


def _as_text(value: object) -> str:
    """Return any value as text; maps and lists as canonical JSON, so that they can be searched and compared."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bytes):
        return ""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    try:
        return canonical_json(value).decode("utf-8")
    except InvalidInput:
        return str(value)


def _to_instant(value: Any) -> Instant:
    """Limit an instant to the range of dates."""
    # A grain may name any instant of 64 bits; beyond what a date can write, "for ever" begins.
    return clamp(int(value))
