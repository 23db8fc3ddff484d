"""The transitions of records: merge, revise, close, forget, erase, redact and expire (sections 2.3, 2.7, 3.3–3.6).

Every function takes records and returns new ones. All but `redact` return them without an integrity block, because a
changed record must be signed again. Nothing here reads a clock; `now` is milliseconds since 1970.

This module is the law of UMP without any storage: given records, what is the result? The services decide who may do it,
write the result and sign it. Keep it pure, since property tests compare it with the published vectors and with the
reference implementation.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from memoranda.encoding.json_text import canonical
from memoranda.errors import ConsentViolation, InvalidInput
from memoranda.model.instant import (
    Instant,
    clamp,
    format_duration,
    format_instant,
    parse_duration_ms,
    parse_instant,
)
from memoranda.model.memory import CUT_KEY, NATIVE_KEY
from memoranda.standards.ump.paths import Path, PathStep, parse_path
from memoranda.standards.ump.record import (
    DEFAULT_VISIBILITY,
    MAX_EVIDENCE,
    MAX_RELATIONS,
    MAX_SUPERSEDES,
    Actor,
    sort_record_fields,
    strip_integrity,
)
from memoranda.standards.ump.shapes import (
    DEFAULT_CONFIDENCE,
    Body,
    Consent,
    Draft,
    Kind,
    Lifecycle,
    Patch,
    PatchTime,
    Provenance,
    Record,
    Time,
    Visibility,
)

# Confidence added by each repeated assertion of a known fact.
_CONFIDENCE_STEP: Final = 0.1
REDACTED: Final = "[redacted]"


_SPAN: Final = ("valid_from", "valid_to")

# --- remember: the same fact again -------------------------------------------------------------------


def fact_key(record: Mapping[str, Any]) -> str:
    """Return a key that two records share if they state the same fact in the same scope.

    Narrower than in the reference implementation, which ignores user, agent, session and visibility: merging across
    those could reveal a memory to the wrong reader.

    Text is compared in normal form C, without surrounding space and regardless of case; punctuation counts.
    """
    scope = record["scope"]
    names = [scope.get(field) for field in ("owner", "project", "user", "agent", "session")]
    text = unicodedata.normalize("NFC", record["body"]["text"]).strip().casefold()
    key = [record["kind"], *names, scope.get("visibility", DEFAULT_VISIBILITY), text]
    return canonical(key).decode("utf-8")


def merge(existing: Record, draft: Draft, *, now: int) -> Record | None:
    """Return the existing record strengthened by a draft of the same fact, or None if the draft would lose content.

    `draft` is the caller's input without defaults: only explicit content can be lost.

    The caller (`service/ump/remember.py`) has found `existing` by `fact_key`. Confidence grows by _CONFIDENCE_STEP,
    evidence and relations are joined, `observed` becomes now. None means: write the draft as a memory of its own.
    """
    if _has_conflict(existing, draft):
        return None
    structured = _merge_values(existing["body"].get("structured"), draft["body"].get("structured"))
    relations = _append_new(existing.get("relations", []), draft.get("relations", []))
    if structured is _CONFLICT or len(relations) > MAX_RELATIONS:
        return None
    merged_record = strip_integrity(existing)
    if structured:
        merged_record["body"] = {**existing["body"], "structured": structured}
    if relations:
        merged_record["relations"] = relations
    provenance = _merge_provenance(existing.get("provenance"), draft.get("provenance"))
    if provenance is not None:
        merged_record["provenance"] = provenance
    merged_record["lifecycle"] = _strengthen(
        existing.get("lifecycle", {}), draft.get("lifecycle", {})
    )
    merged_record["time"] = {**existing["time"], "observed": format_instant(now)}
    return sort_record_fields(merged_record)


def _has_conflict(existing: Record, draft: Draft) -> bool:
    """Return True if the draft states something that cannot be merged into the existing record."""
    lifecycle: Lifecycle = draft.get("lifecycle", {})
    known_lifecycle: Lifecycle = existing.get("lifecycle", {})
    time: Time = draft.get("time", {})
    known_time = existing["time"]
    return (
        # The client's own id, and the ids that it replaces, must stay reachable.
        ("id" in draft and draft["id"] != existing["id"])
        or ("consent" in draft and draft["consent"] != existing.get("consent"))
        or ("decay" in lifecycle and lifecycle["decay"] != known_lifecycle.get("decay"))
        or lifecycle.get("status") == "tombstoned"
        or any(
            field in time and not _same_instant(time[field], known_time.get(field))
            for field in _SPAN
        )
        or not set(draft.get("supersedes", ())) <= set(existing.get("supersedes", ()))
        or not set(draft.get("superseded_by", ())) <= set(existing.get("superseded_by", ()))
    )


def _same_instant(first: str | None, second: str | None) -> bool:
    """Return True if both times are the same instant, or both are missing."""
    if first is None or second is None:
        return first is second
    return parse_instant(first) == parse_instant(second)


_CONFLICT: Final = object()


def _merge_values(first: object, second: object) -> Any:
    """Merge two JSON values; return _CONFLICT if they differ."""
    if first is None or second is None:
        return second if first is None else first
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return first if _same_json(first, second) else _CONFLICT
    merged_values = dict(first)
    for key, value in second.items():
        merged_values[key] = _merge_member(first, key, value)
        if merged_values[key] is _CONFLICT:
            return _CONFLICT
    return merged_values


def _merge_member(members: Mapping[str, object], key: str, value: object) -> object:
    """Merge a value into a member; return _CONFLICT if they differ."""
    if key not in members:
        return value
    if isinstance(members[key], dict) and isinstance(value, dict):
        return _merge_values(members[key], value)
    # An explicit null is a value, not an absence.
    return value if _same_json(members[key], value) else _CONFLICT


def _same_json(first: object, second: object) -> bool:
    """Return True if two JSON values are equal."""
    # True == 1 in Python, but not in JSON.
    return canonical(first) == canonical(second)


def _append_new(old_items: Sequence[object], new_items: Sequence[object]) -> list[Any]:
    """Append the new items to the known ones, without duplicates."""
    joined_values: list[Any] = []
    seen_digests: set[bytes] = set()
    for item in (*old_items, *new_items):
        item_key = canonical(item)
        if item_key not in seen_digests:
            seen_digests.add(item_key)
            joined_values.append(item)
    return joined_values


def _merge_provenance(first: Provenance | None, second: Provenance | None) -> Provenance | None:
    """Merge the provenance of two assertions; new sources become evidence."""
    if first is None or second is None:
        return first or second
    evidence = _append_new(first.get("evidence", []), second.get("evidence", []))
    ref = second.get("source", {}).get("ref")
    differs = any(
        first.get(field) != second.get(field)
        for field in ("actor", "actor_kind", "method", "source")
    )
    if differs and ref is not None and all(item["ref"] != ref for item in evidence):
        # The second actor is not stored, but its source becomes evidence.
        evidence.append({"ref": ref, "weight": 1})
    if not evidence:
        return first
    # A fact asserted every day for a year must not grow without limit: keep the newest evidence.
    return {**first, "evidence": evidence[-MAX_EVIDENCE:]}


def _strengthen(first: Lifecycle, second: Lifecycle) -> Lifecycle:
    """Return the lifecycle after one more assertion."""
    confidence = round(first.get("confidence", DEFAULT_CONFIDENCE) + _CONFIDENCE_STEP, 2)
    saliences = [part["salience"] for part in (first, second) if "salience" in part]
    # Both default to active (section 2.4). One active assertion is enough.
    is_active = "active" in (first.get("status", "active"), second.get("status", "active"))
    lifecycle: Lifecycle = {
        **first,
        "status": "active" if is_active else first["status"],
        # Rounded, so that values like 0.7999999999999999 do not enter the hash.
        "confidence": max(min(1, confidence), second.get("confidence", 0)),
    }
    if saliences:
        lifecycle["salience"] = max(saliences)
    return lifecycle


def drop_original(record: Record) -> Record:
    """Return a record without the foreign document inside, which a new version no longer matches."""
    structured = record["body"].get("structured") or {}
    if NATIVE_KEY not in structured:
        return record
    own_members = {
        name: value for name, value in structured.items() if name not in (NATIVE_KEY, CUT_KEY)
    }
    body: Body = {"text": record["body"]["text"]}
    if own_members:
        body["structured"] = own_members
    return {**record, "body": body}


def inherited_parts(prior: Record, patch: Patch) -> list[str]:
    """Return the parts of a record that a revision takes over: those that its patch leaves out, or repeats."""
    parts = ["scope"]
    if "body" not in patch or patch["body"]["text"] == prior["body"]["text"]:
        parts.append("body")
    if "relations" not in patch or patch["relations"] == prior.get("relations"):
        parts.append("relations")
    return parts


def require_complete(record: Record, parts: Collection[str]) -> None:
    """Raise InvalidInput if the record is a view that shows one of these parts of its original cut.

    Call this before a new version takes a part over from a view: the cut rest of the part would be lost.

    A view shows at most MAX_TEXT_BYTES of a text and MAX_RELATIONS relations, and lists what it cut under CUT_KEY.
    """
    structured = record["body"].get("structured") or {}
    cut_fields = structured.get(CUT_KEY)
    if not isinstance(cut_fields, dict) or NATIVE_KEY not in structured:
        return
    for path, limit in cut_fields.items():
        part = path.partition(".")[0]
        if part in parts:
            raise InvalidInput(
                f"{path}: {limit}. A new version that keeps it would lose the rest; revise the memory through the "
                f"standard it was written in, or replace {part} as a whole"
            )


# The method in the provenance of a record that was given another kind or scope.
_REFILED: Final = "refile"

# --- revise and forget -------------------------------------------------------------------------------


def is_acceptance(prior: Record, patch: Patch) -> bool:
    """Return True if a patch makes a fact of a candidate."""
    status = patch.get("lifecycle", {}).get("status")
    return status == "active" and prior.get("lifecycle", {}).get("status") == "candidate"


def make_successor(prior: Record, patch: Patch, *, now: int, actor: Actor | None = None) -> Record:
    """Return the successor that a revision creates (section 3.5), without an id.

    Fields that the patch leaves out are taken over. The caller gives the new version its id, links both versions and
    signs.
    """
    successor = strip_integrity(prior)
    if "body" in patch:
        successor["body"] = patch["body"]
    if "relations" in patch:
        successor["relations"] = patch["relations"]
    if "lifecycle" in patch:
        successor["lifecycle"] = {**prior.get("lifecycle", {}), **patch["lifecycle"]}
    completed = _complete_successor(
        prior, successor, _span(prior["time"], patch.get("time", {}), now), now=now, actor=actor
    )
    return _tighten_consent(completed, patch["consent"]) if "consent" in patch else completed


def _tighten_consent(successor: Record, added: Consent) -> Record:
    """Return a successor with restrictions added to its consent. Raises InvalidInput if one would be lifted."""
    consent: Consent = {**successor.get("consent", {})}
    if "exportable" in added:
        if added["exportable"] and consent.get("exportable") is False:
            raise InvalidInput(
                "patch.consent.exportable: the memory must not be exported, and a revision cannot lift that"
            )
        consent["exportable"] = added["exportable"]
    if "redact" in added:
        consent["redact"] = list(dict.fromkeys((*consent.get("redact", ()), *added["redact"])))
    if "retention" in added:
        before = retention_end(successor)
        after = retention_end({**successor, "consent": added})
        if after is None or (before is not None and after > before):
            raise InvalidInput(
                "patch.consent.retention: a revision can only shorten the retention; it counts from now"
            )
        consent["retention"] = added["retention"]
    if successor["scope"]["visibility"] == "public" and consent.get("exportable") is False:
        raise ConsentViolation("consent: a public memory cannot be exportable: false")
    return sort_record_fields({**successor, "consent": consent})


def restore(
    prior: Record, earlier_record: Record, *, now: int, actor: Actor | None = None
) -> Record:
    """Return a successor of the prior record with the content of an earlier one, without an id."""
    successor = strip_integrity(prior)
    restored: Mapping[str, Any] = {"relations": [], "lifecycle": {}, **earlier_record}
    for part in ("body", "relations", "lifecycle"):
        if part in prior or part in earlier_record:
            successor[part] = restored[part]
    successor["scope"] = {**prior["scope"], "visibility": earlier_record["scope"]["visibility"]}
    return _complete_successor(
        prior, successor, _span(earlier_record["time"], {}, now), now=now, actor=actor
    )


class Filing(msgspec.Struct, frozen=True, kw_only=True):
    """Another kind, project, person or visibility for a memory: None keeps one, "" removes a project or person."""

    kind: Kind | None = None
    project: str | None = None
    user: str | None = None
    visibility: Visibility | None = None


def filing_of(record: Record) -> Filing:
    """Return the kind, project, person and visibility of a record."""
    scope = record["scope"]
    return Filing(
        kind=record["kind"],
        project=scope.get("project", ""),
        user=scope.get("user", ""),
        visibility=scope["visibility"],
    )


def refile(successor: Record, filing: Filing) -> Record:
    """Return a successor with another kind, project, person or visibility. Raises ConsentViolation."""
    scope: dict[str, Any] = {**successor["scope"]}
    for name in ("project", "user", "visibility"):
        value = getattr(filing, name)
        if value is not None:
            scope[name] = value
    is_exportable = successor.get("consent", {}).get("exportable", True)
    if scope["visibility"] == "public" and not is_exportable:
        raise ConsentViolation("consent: a public memory cannot be exportable: false")
    refiled: dict[str, Any] = {
        **successor,
        "kind": filing.kind or successor["kind"],
        "scope": {name: value for name, value in scope.items() if value},
        "provenance": {**successor["provenance"], "method": _REFILED},
    }
    return sort_record_fields(cast("Record", refiled))


def is_refiled(record: Record) -> bool:
    """Return True if a record was written by `refile`."""
    return record.get("provenance", {}).get("method") == _REFILED


def _span(time: Time, patch: PatchTime, now: int) -> tuple[str, str | None]:
    """Return from when to when a successor is true: from now on, unless it is not true yet or not any more."""
    ends = patch["valid_to"] if "valid_to" in patch else time.get("valid_to")
    if "valid_from" in patch:
        return patch["valid_from"], ends
    moment = format_instant(now)
    starts = time.get("valid_from", time.get("created", moment))
    is_over = ends is not None and parse_instant(ends) <= now
    return (starts if is_over or parse_instant(starts) > now else moment), ends


def _complete_successor(
    prior: Record, successor: Record, span: tuple[str, str | None], *, now: int, actor: Actor | None
) -> Record:
    """Return a record as the successor of the prior one, true within the span."""
    moment = format_instant(now)
    successor["id"] = ""
    successor["time"] = {
        **prior["time"],
        "created": moment,
        "observed": moment,
        "valid_from": span[0],
        "valid_to": span[1],
    }
    retention_ends = retention_end(prior)
    if retention_ends is not None:
        # Section 2.7 counts from the creation, and a revision does not make a memory younger.
        successor["consent"] = {
            **prior["consent"],
            "retention": format_duration(max(0, retention_ends - now)),
        }
    # Section 2.1: the direct predecessor only. Earlier ones are named by it; `history` lists all.
    successor["supersedes"] = [prior["id"]]
    successor["superseded_by"] = []
    _write_provenance(successor, prior["id"], "revise", actor)
    return sort_record_fields(successor)


def close(prior: Record, *, valid_to: str, successor_id: str) -> Record:
    """Return the prior version after its revision: section 3.5 sets its valid_to and superseded_by."""
    closed_record = _end_at(prior, valid_to)
    closed_record["superseded_by"] = [successor_id, *prior.get("superseded_by", ())][
        :MAX_SUPERSEDES
    ]
    return sort_record_fields(closed_record)


def tombstone(record: Record, *, at: str, actor: Actor | None = None) -> Record:
    """Return the record after forgetting (section 3.6) or the end of retention (section 2.7): stored, not recalled."""
    tombstoned = _end_at(record, at)
    tombstoned["lifecycle"] = {**record.get("lifecycle", {}), "status": "tombstoned"}
    _write_provenance(tombstoned, record["id"], "forget", actor)
    return sort_record_fields(tombstoned)


# Fields that survive erasure, by object. Unknown fields may contain anything, so they are removed.
_SKELETON: Final = {
    "scope": ("owner", "project", "visibility"),
    "time": ("created", "observed", "valid_from", "valid_to"),
    "lifecycle": ("status", "confidence", "salience"),
    "provenance": ("actor", "actor_kind", "method"),
}


def erase(record: Record, *, reason: str, actor: Actor | None = None) -> Record:
    """Return the record after erasure (section 3.6, hard): its position in history, without any content."""
    fields: Mapping[str, Any] = record
    names = ("ump", "id", "kind", "supersedes", "superseded_by")
    skeleton = {name: fields[name] for name in names if name in fields}
    for field, permitted in _SKELETON.items():
        if field in fields:
            skeleton[field] = {
                name: value for name, value in fields[field].items() if name in permitted
            }
    erased = cast("Record", skeleton)
    erased["body"] = {"text": f"[erased: {reason}]"}
    erased["lifecycle"] = {**erased.get("lifecycle", {}), "status": "tombstoned"}
    if actor is not None:
        erased["provenance"] = {"actor": actor[0], "actor_kind": actor[1], "method": "forget"}
    return sort_record_fields(erased)


def _end_at(record: Record, at: str) -> Record:
    """Return an unsigned copy that is valid until `at` at most."""
    valid_to = record["time"].get("valid_to")
    ends = at
    if valid_to is not None and parse_instant(valid_to) <= parse_instant(at):
        ends = valid_to
    ended_record = strip_integrity(record)
    ended_record["time"] = {**record["time"], "valid_to": ends}
    return ended_record


def _write_provenance(record: Record, source_id: str, method: str, actor: Actor | None) -> None:
    """Write the actor and method of a change into the record, which keeps its evidence."""
    if actor is None:
        return
    # Section 2.6: the new provenance says who asserted what and how. The evidence of the fact stays.
    stamped: Provenance = {
        "actor": actor[0],
        "actor_kind": actor[1],
        "method": method,
        "source": {"ref": source_id},
    }
    provenance = record.get("provenance")
    if provenance and (evidence := provenance.get("evidence")):
        stamped["evidence"] = evidence
    record["provenance"] = stamped


# --- consent -----------------------------------------------------------------------------------------

# Fields that a valid record needs. Redaction blanks strings, strips objects, and keeps the others.
_BLANKED_FIELDS: Final = frozenset(
    (
        "body.text",
        "provenance.actor",
        "provenance.method",
        "provenance.evidence.*.ref",
        "relations.*.type",
        "relations.*.target",
    )
)
_STRIPPED_OBJECTS: Final[dict[str, dict[str, str | None]]] = {
    "body": {"text": REDACTED},
    "scope": {"owner": None, "visibility": None},
    "time": {"created": None},
}
_UNREDACTABLE: Final = frozenset(
    (
        "ump",
        "id",
        "kind",
        "scope.owner",
        "scope.visibility",
        "time.created",
        "provenance.actor_kind",
        "consent",
        "consent.redact",
        "consent.redact.*",
    )
)


def redact(record: Record) -> tuple[Record, bool]:
    """Return the record as others may see it, and True if anything was removed.

    Section 2.7: a store MUST apply redact before emitting a record across a visibility boundary. A redacted record
    keeps its integrity block, which no longer verifies.
    """
    consent = record.get("consent")
    redact_paths: object = consent.get("redact") if isinstance(consent, dict) else None
    redacted = record
    for text in redact_paths if isinstance(redact_paths, list) else ():
        # An unreadable path may have meant any part of the content, so all of it is removed.
        path = parse_path(text) if isinstance(text, str) else None
        redacted = _remove_path(redacted, path or _BODY, ())
    if redacted is record:
        return record, False
    return _remove_path(redacted, _ORIGINAL, ()), True


_BODY: Final = (PathStep(("body",)),)
# A foreign document inside the record contains the removed content as well.
_ORIGINAL: Final = (PathStep(("body",)), PathStep(("structured",)), PathStep((NATIVE_KEY,)))


def _remove_path(node: Any, path: Path, steps_before: tuple[str, ...]) -> Any:
    """Return the node without what the path selects, or the same node if it selects nothing."""
    step, remaining = path[0], path[1:]
    redacted = node
    for key in step.select_keys(node):
        rule = (*steps_before, "*" if isinstance(node, list) else str(key))
        if remaining:
            redacted = _with_value(redacted, key, _remove_path(node[key], remaining, rule))
        else:
            redacted = _remove_member(redacted, key, ".".join(rule))
    if step.descends and isinstance(node, dict | list):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            rule = (*steps_before, "*" if isinstance(node, list) else str(key))
            if isinstance(redacted, list) or key in redacted:
                redacted = _with_value(redacted, key, _remove_path(redacted[key], path, rule))
    return redacted


def _with_value(node: Any, key: Any, value: Any) -> object:
    """Return the node with a new value for the key, or the same node if the value is the same."""
    return node if node[key] is value else _replace_value(node, key, value)


def _remove_member(node: Any, key: Any, rule: str) -> object:
    """Remove or blank one member of a node, depending on whether a valid record needs it."""
    inner = node[key]
    if rule in _UNREDACTABLE:
        return node
    if rule in _BLANKED_FIELDS:
        return node if inner == REDACTED else _replace_value(node, key, REDACTED)
    if rule in _STRIPPED_OBJECTS and isinstance(inner, dict):
        required = _STRIPPED_OBJECTS[rule]
        stripped = {}
        for field, blank in required.items():
            if field in inner:
                stripped[field] = inner[field] if blank is None else blank
        return node if stripped == inner else _replace_value(node, key, stripped)
    if isinstance(node, list):
        # Write null, so that the other elements keep their index.
        return node if inner is None else _replace_value(node, key, None)
    return {field: value for field, value in node.items() if field != key}


def _replace_value(node: Any, key: Any, value: Any) -> object:
    """Return a copy of an object or array with another value for one key."""
    copy = node.copy()
    copy[key] = value
    return copy


def retention_end(record: Mapping[str, Any]) -> Instant | None:
    """Return the instant from which the record must be tombstoned (section 2.7); None if its consent sets none."""
    consent = record.get("consent")
    retention = consent.get("retention") if isinstance(consent, dict) else None
    if not isinstance(retention, str):
        return None
    try:
        return clamp(parse_instant(record["time"]["created"]) + parse_duration_ms(retention))
    except ValueError:
        return None
