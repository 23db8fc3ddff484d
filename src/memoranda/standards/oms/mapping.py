"""Grains to and from the neutral model.

Towards the model: what the store filters, ranks and links by, for all ten types. From the model: how a memory written
through another standard looks as a grain. Such a grain carries the original under `context["memoranda:native"]`, so
that taking it back restores the original byte for byte; nothing in it depends on state, so its address is stable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from memoranda.encoding.json_text import canonical as canonical_json
from memoranda.errors import GrainError, InvalidInput
from memoranda.model import native
from memoranda.model.instant import EARLIEST, LATEST, Instant
from memoranda.model.memory import DERIVED_FROM, VISIBILITIES, Document, Kind, Projection, Relation, Scope, Visibility
from memoranda.model.native import NATIVE_KEY
from memoranda.model.standard import OMS
from memoranda.standards.oms.grains import MARKS, Grain, encode, encode_plain
from memoranda.standards.oms.header import MAX_CREATED_AT_SEC
from memoranda.standards.oms.policy import protects_lineage
from memoranda.standards.oms.profile import SizeProfile
from memoranda.standards.oms.registry import BY_NAME, DEFAULT_NAMESPACE

STANDARD: Final = OMS
MEDIA_TYPE: Final = "application/vnd.oms.grain"
SIGNED_MEDIA_TYPE: Final = "application/vnd.oms.grain+cose"
IDENTITY_TAG: Final = "identity"
GOAL_BYTE: Final = 0x07
# Before what is not text: a map is never equal to the text that spells it.
NOT_TEXT: Final = "\x00"
# OMS has no word for it, so a tag says who may see a grain; without one it is private.
VISIBILITY_TAG: Final = "visibility:"

# A foreign view holds its original in base64 beside its text: more than what is recommended for a grain itself.
VIEWS: Final = SizeProfile(name="view", max_bytes=4 * 1_048_576, max_depth=32)

Fields = Mapping[str, Any]

# Some writers say so before an address; the name itself is without.
ADDRESS_PREFIX: Final = "sha256:"

# The relation of a grain that is a text without a triple: `from_projection` names the kind there.
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


def project(grain: Grain, tenant: str) -> Projection:
    """Read a grain without OMS's words."""
    fields = grain.fields
    created = _instant(fields["created_at"])
    tags = tuple(tag for tag in fields.get("structural_tags", ()) if isinstance(tag, str))
    valid_to = fields.get("valid_to")
    return Projection(
        kind="identity" if IDENTITY_TAG in tags else _KINDS.get(grain.type_byte, "semantic"),
        text=text_of(grain),
        scope=Scope(
            tenant=tenant,
            space="" if grain.namespace == DEFAULT_NAMESPACE else grain.namespace,
            user=_text(fields.get("user_id")),
            session=_text(fields.get("session_id")),
            visibility=_visibility(tags),
        ),
        created=created,
        observed=_instant(fields.get("timestamp_ms", created)),
        valid_from=_instant(fields.get("valid_from", created)),
        # OMS counts the last instant in (section 15), the store does not.
        valid_to=None if valid_to is None else _instant(valid_to + 1),
        confidence=fields.get("confidence"),
        salience=fields.get("importance"),
        evidence_count=len(fields.get("provenance_chain", ())),
        tags=tags,
        relations=tuple(_relations(fields)),
        source=_text(fields.get("source_type")),
        actor=_text(fields.get("author_did")),
        subject=triple_of(grain)[0],
        basis=_address(fields.get("processing_basis")),
        withdraws=_address(fields.get("prior_consent")) if fields.get("is_withdrawal") is True else "",
        may_protect=protects_lineage(fields),
    )


def triple_of(grain: Grain) -> tuple[str, str, str]:
    """Subject, relation and object; a consent is a triple too: who permits (or revokes) whom."""
    fields = grain.fields
    if grain.type_byte == 0x0A:
        relation = "mg:revokes" if fields.get("is_withdrawal") else "mg:permits"
        return _text(fields.get("subject_did")), relation, _text(fields.get("grantee_did"))
    object_ = fields.get("object")
    if object_ in (None, "") and grain.type_byte == GOAL_BYTE:
        object_ = fields.get("description")
    said = _text(object_) if isinstance(object_, str) or object_ is None else NOT_TEXT + _text(object_)
    return _text(fields.get("subject")), _text(fields.get("relation")), said


def text_of(grain: Grain) -> str:
    """Return the content of a grain as prose; never empty."""
    fields = grain.fields
    text = _text_alone(fields) if is_text(grain.type_name, fields) else ""
    text = text or _TEXTS.get(grain.type_byte, _any_text)(fields)
    return text or _any_text(fields) or grain.type_name


def is_text(type_name: str, fields: Fields) -> bool:
    """Return True for a text without a triple: a view of another standard's memory, or a grain that evolved from one.

    Its subject and its relation are ours (`from_projection`): nobody said them, so they are no part of its text.
    """
    relation = fields.get("relation")
    if not isinstance(relation, str) or relation not in _TEXT_RELATIONS.get(type_name, ()):
        return False
    # "identity" is a relation that people use, too.
    return relation != "identity" or IDENTITY_TAG in fields.get("structural_tags", ())


def _text_alone(fields: Fields) -> str:
    """Return the text of a grain without a triple, from the field where its type holds it (`_text_fields`)."""
    context = fields.get("context")
    if isinstance(context, Mapping) and isinstance(context.get("text"), str) and fields.get("type") == "state":
        return cast("str", context["text"])
    steps = fields.get("steps")
    if isinstance(steps, list):
        return _text(steps[0]) if len(steps) == 1 else _numbered(steps)
    return _joined(fields, "object", "content")


def _any_text(fields: Fields) -> str:
    return _joined(fields, "subject", "relation", "object", "content", "description", "conclusion")


def _triple_text(fields: Fields) -> str:
    return _joined(fields, "subject", "relation", "object", "content")


def _event_text(fields: Fields) -> str:
    blocks = [
        _text(b.get("text") or b.get("thinking")) for b in fields.get("content_blocks", ()) if isinstance(b, dict)
    ]
    return " ".join(filter(None, [_text(fields.get("content")), *blocks])) or _triple_text(fields)


def _state_text(fields: Fields) -> str:
    plan = map(_text, fields.get("plan", ()))
    return " ".join(filter(None, [*plan, _triple_text(fields), _text(fields.get("context", {}))]))


def _workflow_text(fields: Fields) -> str:
    steps = fields.get("steps", ())
    if len(steps) == 1:
        return _text(steps[0])
    return f"{_text(fields.get('trigger'))}: {_numbered(steps)}"


def _numbered(steps: Sequence[Any]) -> str:
    return "  ".join(f"{number}. {_text(step)}" for number, step in enumerate(steps, start=1))


def _action_text(fields: Fields) -> str:
    names = ("tool_name", "tool_description", "input", "content", "code", "stdout", "error", "object")
    return _joined(fields, *names)


def _observation_text(fields: Fields) -> str:
    return _joined(fields, "subject", "relation", "object", "content") or _joined(
        fields, "observer_id", "observer_type"
    )


def _goal_text(fields: Fields) -> str:
    return _joined(fields, "description", "object", "criteria")


def _reasoning_text(fields: Fields) -> str:
    return _joined(fields, "conclusion", "content", "premises", "thinking_content", "subject", "relation", "object")


def _consensus_text(fields: Fields) -> str:
    return _joined(fields, "agreed_content", "subject", "relation", "object")


def _consent_text(fields: Fields) -> str:
    verb = "revokes from" if fields.get("is_withdrawal") else "permits"
    scope = ", ".join(map(_text, fields.get("scope", ())))
    return f"{_text(fields.get('subject_did'))} {verb} {_text(fields.get('grantee_did'))}: {scope}"


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
    """A memory of another standard as a grain (DESIGN: kinds across the standards)."""
    scope = projection.scope
    tags = [*projection.tags]
    if projection.kind == "identity" and IDENTITY_TAG not in tags:
        tags.append(IDENTITY_TAG)
    if scope.visibility != "private":
        tags.append(VISIBILITY_TAG + scope.visibility)
    fields: dict[str, Any] = {
        **_text_fields(projection),
        "subject": projection.subject or scope.user or scope.tenant,
        "relation": projection.kind,
        "created_at": projection.created,
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
    fields["context"] = {**fields.get("context", {}), NATIVE_KEY: native.wrap(original)}
    if _is_plain(projection, original, fields, tags):
        return encode_plain(fields, BY_NAME[fields["type"]].byte, VIEWS)
    try:
        return encode(fields, profile=VIEWS)
    except GrainError:
        bare = _without_marks(fields)
        # Nothing may be left of a name.
        return encode({**bare, "subject": bare["subject"] or scope.tenant}, profile=VIEWS)


def _is_plain(projection: Projection, original: Document, fields: Fields, tags: list[str]) -> bool:
    """Whether the fields of a view are plainly those of a grain, as nearly all are: then nothing of it is checked."""
    if not (projection.text and 0 <= projection.created // 1000 <= MAX_CREATED_AT_SEC):
        return False
    named = (fields["subject"], fields["relation"], fields["namespace"], *tags)
    beside = (original.standard, original.name, original.media_type, projection.actor)
    scope = projection.scope
    if not "".join((projection.text, *named, *beside, scope.user, scope.session)).isascii():
        return False
    shares = [share for share in (fields.get("confidence"), projection.salience) if share is not None]
    if not all(type(share) is float and 0.0 <= share <= 1.0 for share in shares):
        return False
    return not any(tag.startswith(MARKS) for tag in tags)


def _without_marks(value: Any) -> Any:
    """The same without byte order marks, which no string of a grain may hold; the original keeps them."""
    if isinstance(value, str):
        return value.replace("\ufeff", "")
    if isinstance(value, dict):
        return {key: _without_marks(item) for key, item in value.items()}
    return [_without_marks(item) for item in value] if isinstance(value, list) else value


def _text_fields(projection: Projection) -> dict[str, Any]:
    """Return the type that is written for a kind, with the field that holds its text."""
    text, confidence = projection.text, projection.confidence
    if projection.kind == "episodic":
        return {"type": "event", "content": text, "timestamp_ms": projection.observed}
    if projection.kind == "procedural":
        return {"type": "workflow", "steps": [text], "trigger": projection.kind}
    if projection.kind == "working":
        return {"type": "state", "context": {"text": text}}
    return {"type": "belief", "object": text, "confidence": 1.0 if confidence is None else float(confidence)}


def unwrap(grain: Grain) -> Document | None:
    """The original document that a foreign view carries, if the grain is one."""
    return native.unwrap(grain.fields.get("context"))


def _relations(fields: Fields) -> list[Relation]:
    found = [
        Relation(type=_text(link.get("relation_type")), target=_text(link.get("hash")))
        for link in fields.get("related_to", ())
        if isinstance(link, dict)
    ]
    found += [Relation(type=DERIVED_FROM, target=_text(source)) for source in fields.get("derived_from", ())]
    return [relation for relation in found if relation.type and relation.target]


def _visibility(tags: tuple[str, ...]) -> Visibility:
    said = [tag.removeprefix(VISIBILITY_TAG) for tag in tags if tag.startswith(VISIBILITY_TAG)]
    # Of several the narrowest: VISIBILITIES begins with it.
    return next((visibility for visibility in VISIBILITIES if visibility in said), "private")


def _address(value: Any) -> str:
    return _text(value).removeprefix(ADDRESS_PREFIX)


def _joined(fields: Fields, *names: str) -> str:
    # The same twice says no more: a goal's object is often its description.
    return " ".join(dict.fromkeys(filter(None, (_text(fields.get(name)) for name in names))))


def _text(value: Any) -> str:
    """Any value as words: maps and lists as canonical JSON, so that they can be searched and compared."""
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


def _instant(value: Any) -> Instant:
    # A grain may name any instant of 64 bits; beyond what a date can write, "for ever" begins.
    return max(EARLIEST, min(LATEST, Instant(int(value))))
