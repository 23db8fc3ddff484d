"""How records change: merge, revise, close, forget, erase, redact and expire (sections 2.3, 2.7, 3.3–3.6).

Every function takes records and returns new ones without an integrity block (`redact` excepted): what
changed must be signed again. Nothing here reads a clock; `now` is milliseconds since 1970.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, cast

from memoranda.encoding.json_text import canonical
from memoranda.errors import InvalidInput
from memoranda.model.instant import format_duration, format_instant, parse_duration_ms, parse_instant
from memoranda.model.native import CUT_KEY, NATIVE_KEY
from memoranda.standards.ump.paths import Path, Step, parse_path
from memoranda.standards.ump.record import (
    DEFAULT_VISIBILITY,
    MAX_EVIDENCE,
    MAX_RELATIONS,
    MAX_SUPERSEDES,
    Actor,
    ordered,
    unsigned,
)
from memoranda.standards.ump.shapes import (
    DEFAULT_CONFIDENCE,
    Body,
    Draft,
    Lifecycle,
    Patch,
    PatchTime,
    Provenance,
    Record,
    Time,
)

# What one more assertion of a known fact adds to the confidence in it.
_CONFIDENCE_STEP: Final = 0.1
REDACTED: Final = "[redacted]"


_SPAN: Final = ("valid_from", "valid_to")

# --- remember: the same fact again -------------------------------------------------------------------


def same_fact(record: Mapping[str, Any]) -> str:
    """The text that two records share when they state the same fact in the same scope.

    Narrower than the reference, which forgets user, agent, session and visibility: merging across those
    would show a memory to someone it was not meant for.
    """
    scope = record["scope"]
    names = [scope.get(field) for field in ("owner", "project", "user", "agent", "session")]
    text = unicodedata.normalize("NFC", record["body"]["text"]).strip().casefold()
    key = [record["kind"], *names, scope.get("visibility", DEFAULT_VISIBILITY), text]
    return canonical(key).decode("utf-8")


def merge(existing: Record, draft: Draft, *, now: int) -> Record | None:
    """The existing record, strengthened by a draft of the same fact; None if the draft would lose something.

    `draft` is what the caller sent, before defaults: only what it says explicitly can be lost.
    """
    if _says_otherwise(existing, draft):
        return None
    structured = _union(existing["body"].get("structured"), draft["body"].get("structured"))
    relations = _appended(existing.get("relations", []), draft.get("relations", []))
    if structured is _CONFLICT or len(relations) > MAX_RELATIONS:
        return None
    merged = unsigned(existing)
    if structured:
        merged["body"] = {**existing["body"], "structured": structured}
    if relations:
        merged["relations"] = relations
    provenance = _joined_provenance(existing.get("provenance"), draft.get("provenance"))
    if provenance is not None:
        merged["provenance"] = provenance
    merged["lifecycle"] = _strengthened(existing.get("lifecycle", {}), draft.get("lifecycle", {}))
    merged["time"] = {**existing["time"], "observed": format_instant(now)}
    return ordered(merged)


def _says_otherwise(existing: Record, draft: Draft) -> bool:
    """Whether the draft states something that the existing record has no room for."""
    lifecycle: Lifecycle = draft.get("lifecycle", {})
    known_lifecycle: Lifecycle = existing.get("lifecycle", {})
    time: Time = draft.get("time", {})
    known_time = existing["time"]
    return (
        # A client's own identity, and what it replaces, must stay reachable.
        ("id" in draft and draft["id"] != existing["id"])
        or ("consent" in draft and draft["consent"] != existing.get("consent"))
        or ("decay" in lifecycle and lifecycle["decay"] != known_lifecycle.get("decay"))
        or lifecycle.get("status") == "tombstoned"
        or any(field in time and not _same_instant(time[field], known_time.get(field)) for field in _SPAN)
        or not set(draft.get("supersedes", ())) <= set(existing.get("supersedes", ()))
        or not set(draft.get("superseded_by", ())) <= set(existing.get("superseded_by", ()))
    )


def _same_instant(left: str | None, right: str | None) -> bool:
    if left is None or right is None:
        return left is right
    return parse_instant(left) == parse_instant(right)


_CONFLICT: Final = object()


def _union(left: Any, right: Any) -> Any:
    """Both objects in one; _CONFLICT where they differ."""
    if left is None or right is None:
        return right if left is None else left
    if not (isinstance(left, dict) and isinstance(right, dict)):
        return left if _same_json(left, right) else _CONFLICT
    joined = dict(left)
    for key, value in right.items():
        joined[key] = _member_union(left, key, value)
        if joined[key] is _CONFLICT:
            return _CONFLICT
    return joined


def _member_union(left: dict[str, Any], key: str, value: Any) -> Any:
    if key not in left:
        return value
    if isinstance(left[key], dict) and isinstance(value, dict):
        return _union(left[key], value)
    # An explicit null is a value of its own, not an absence.
    return value if _same_json(left[key], value) else _CONFLICT


def _same_json(left: Any, right: Any) -> bool:
    # Python holds True == 1; JSON does not.
    return canonical(left) == canonical(right)


def _appended(known: Sequence[Any], more: Sequence[Any]) -> list[Any]:
    joined: list[Any] = []
    seen: set[bytes] = set()
    for item in (*known, *more):
        mark = canonical(item)
        if mark not in seen:
            seen.add(mark)
            joined.append(item)
    return joined


def _joined_provenance(known: Provenance | None, new: Provenance | None) -> Provenance | None:
    if known is None or new is None:
        return known or new
    evidence = _appended(known.get("evidence", []), new.get("evidence", []))
    ref = new.get("source", {}).get("ref")
    differs = any(known.get(field) != new.get(field) for field in ("actor", "actor_kind", "method", "source"))
    if differs and ref is not None and all(item["ref"] != ref for item in evidence):
        # Who said it again would be lost; where they said it stays as evidence.
        evidence.append({"ref": ref, "weight": 1})
    if not evidence:
        return known
    # A fact asserted every day for a year must not grow without end: the newest evidence stays.
    return {**known, "evidence": evidence[-MAX_EVIDENCE:]}


def _strengthened(known: Lifecycle, new: Lifecycle) -> Lifecycle:
    raised = round(known.get("confidence", DEFAULT_CONFIDENCE) + _CONFIDENCE_STEP, 2)
    saliences = [part["salience"] for part in (known, new) if "salience" in part]
    # Both default to active (section 2.4); one active assertion is enough.
    active = "active" in (known.get("status", "active"), new.get("status", "active"))
    lifecycle: Lifecycle = {
        **known,
        "status": "active" if active else known["status"],
        # Rounded, because 0.7999999999999999 would enter the hash.
        "confidence": max(min(1, raised), new.get("confidence", 0)),
    }
    if saliences:
        lifecycle["salience"] = max(saliences)
    return lifecycle


def without_original(record: Record) -> Record:
    """Return the record without the foreign document inside: a new version is not that document any more."""
    structured = record["body"].get("structured") or {}
    if NATIVE_KEY not in structured:
        return record
    own = {name: value for name, value in structured.items() if name not in (NATIVE_KEY, CUT_KEY)}
    body: Body = {"text": record["body"]["text"]}
    if own:
        body["structured"] = own
    return {**record, "body": body}


def kept_parts(prior: Record, patch: Patch) -> list[str]:
    """Return the parts of a record that a revision takes over: those that its patch leaves out, or repeats."""
    kept = ["scope"]
    if "body" not in patch or patch["body"]["text"] == prior["body"]["text"]:
        kept.append("body")
    if "relations" not in patch or patch["relations"] == prior.get("relations"):
        kept.append("relations")
    return kept


def require_complete(record: Record, parts: Collection[str]) -> None:
    """Raise InvalidInput if the record is a view that shows one of these parts of its original cut.

    Whoever takes a part over from a view into a new version asks this first: the rest would be lost.
    """
    structured = record["body"].get("structured") or {}
    cut = structured.get(CUT_KEY)
    if not isinstance(cut, dict) or NATIVE_KEY not in structured:
        return
    for path, limit in cut.items():
        part = path.partition(".")[0]
        if part in parts:
            raise InvalidInput(
                f"{path}: {limit}. A new version that keeps it would lose the rest; revise the memory through the "
                f"standard it was written in, or replace {part} as a whole"
            )


# --- revise and forget -------------------------------------------------------------------------------


def succeed(prior: Record, patch: Patch, *, now: int, actor: Actor | None = None) -> Record:
    """Return the successor that a revision creates (section 3.5), without an id."""
    successor = unsigned(prior)
    if "body" in patch:
        successor["body"] = patch["body"]
    if "relations" in patch:
        successor["relations"] = patch["relations"]
    if "lifecycle" in patch:
        successor["lifecycle"] = {**prior.get("lifecycle", {}), **patch["lifecycle"]}
    return _succeeding(prior, successor, _span(prior["time"], patch.get("time", {}), now), now=now, actor=actor)


def restore(prior: Record, earlier: Record, *, now: int, actor: Actor | None = None) -> Record:
    """Return a successor of the prior record with the content of an earlier one, without an id."""
    successor = unsigned(prior)
    restored: Mapping[str, Any] = {"relations": [], "lifecycle": {}, **earlier}
    for part in ("body", "relations", "lifecycle"):
        if part in prior or part in earlier:
            successor[part] = restored[part]
    return _succeeding(prior, successor, _span(earlier["time"], {}, now), now=now, actor=actor)


def _span(time: Time, patch: PatchTime, now: int) -> tuple[str, str | None]:
    """Return from when to when a successor is true: from now on, unless it is not true yet or not any more."""
    ends = patch["valid_to"] if "valid_to" in patch else time.get("valid_to")
    if "valid_from" in patch:
        return patch["valid_from"], ends
    moment = format_instant(now)
    starts = time.get("valid_from", time.get("created", moment))
    is_over = ends is not None and parse_instant(ends) <= now
    return (starts if is_over or parse_instant(starts) > now else moment), ends


def _succeeding(
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
    ends = retention_end(prior)
    if ends is not None:
        # Section 2.7 counts from the creation; a memory that is revised is as old as it was.
        successor["consent"] = {**prior["consent"], "retention": format_duration(max(0, ends - now))}
    # Section 2.1: what this replaces. Those before it are named by the prior, and told by history.
    successor["supersedes"] = [prior["id"]]
    successor["superseded_by"] = []
    _stamp(successor, prior["id"], "revise", actor)
    return ordered(successor)


def close(prior: Record, *, valid_to: str, successor_id: str) -> Record:
    """The prior version once it has a successor: section 3.5 sets its valid_to and superseded_by."""
    closed = _ended(prior, valid_to)
    closed["superseded_by"] = [successor_id, *prior.get("superseded_by", ())][:MAX_SUPERSEDES]
    return ordered(closed)


def tombstone(record: Record, *, at: str, actor: Actor | None = None) -> Record:
    """The record once forgotten (section 3.6) or past its retention (section 2.7): kept, not recalled."""
    tombstoned = _ended(record, at)
    tombstoned["lifecycle"] = {**record.get("lifecycle", {}), "status": "tombstoned"}
    _stamp(tombstoned, record["id"], "forget", actor)
    return ordered(tombstoned)


# What stays of each object: a field that is not known here may say anything, and goes.
_SKELETON: Final = {
    "scope": ("owner", "project", "visibility"),
    "time": ("created", "observed", "valid_from", "valid_to"),
    "lifecycle": ("status", "confidence", "salience"),
    "provenance": ("actor", "actor_kind", "method"),
}


def erase(record: Record, *, reason: str, actor: Actor | None = None) -> Record:
    """The record once erased (section 3.6, hard): its place in history, and nothing it said."""
    fields: Mapping[str, Any] = record
    left = {key: fields[key] for key in ("ump", "id", "kind", "supersedes", "superseded_by") if key in fields}
    for field, kept in _SKELETON.items():
        if field in fields:
            left[field] = {key: value for key, value in fields[field].items() if key in kept}
    erased = cast("Record", left)
    erased["body"] = {"text": f"[erased: {reason}]"}
    erased["lifecycle"] = {**erased.get("lifecycle", {}), "status": "tombstoned"}
    if actor is not None:
        erased["provenance"] = {"actor": actor[0], "actor_kind": actor[1], "method": "forget"}
    return ordered(erased)


def _ended(record: Record, at: str) -> Record:
    """A copy that is valid no longer than `at`; an earlier end stands."""
    known = record["time"].get("valid_to")
    ends = known if known is not None and parse_instant(known) <= parse_instant(at) else at
    ended = unsigned(record)
    ended["time"] = {**record["time"], "valid_to": ends}
    return ended


def _stamp(record: Record, source_id: str, method: str, actor: Actor | None) -> None:
    if actor is None:
        return
    # Section 2.6: who asserted what, how; the evidence of the fact itself stays.
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

# Without these a record is no record: strings are blanked, objects lose everything else, the rest stays.
_BLANKED: Final = frozenset(
    (
        "body.text",
        "provenance.actor",
        "provenance.method",
        "provenance.evidence.*.ref",
        "relations.*.type",
        "relations.*.target",
    )
)
_HOLLOWED: Final[dict[str, dict[str, str | None]]] = {
    "body": {"text": REDACTED},
    "scope": {"owner": None, "visibility": None},
    "time": {"created": None},
}
_KEPT: Final = frozenset(
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
    """The record as others may see it, and whether anything was taken out.

    Section 2.7: a store MUST apply redact before emitting a record across a visibility boundary. A
    redacted record keeps its integrity block, which no longer verifies.
    """
    consent = record.get("consent")
    listed: Any = consent.get("redact") if isinstance(consent, dict) else None
    seen = record
    for text in listed if isinstance(listed, list) else ():
        # What cannot be read may have meant anything that was said.
        seen = _without(seen, (parse_path(text) if isinstance(text, str) else None) or _SAID, ())
    return (seen, False) if seen is record else (_without(seen, _ORIGINAL, ()), True)


_SAID: Final = (Step(("body",)),)
# A document that is carried along says what was taken out.
_ORIGINAL: Final = (Step(("body",)), Step(("structured",)), Step((NATIVE_KEY,)))


def _without(node: Any, path: Path, walked: tuple[str, ...]) -> Any:
    """The node with one path taken out; the node itself, untouched, when the path leads nowhere."""
    step, rest = path[0], path[1:]
    seen = node
    for key in step.keys(node):
        rule = (*walked, "*" if isinstance(node, list) else str(key))
        seen = _changed(seen, key, _without(node[key], rest, rule)) if rest else _taken(seen, key, ".".join(rule))
    if step.descends and isinstance(node, dict | list):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            rule = (*walked, "*" if isinstance(node, list) else str(key))
            if isinstance(seen, list) or key in seen:
                seen = _changed(seen, key, _without(seen[key], path, rule))
    return seen


def _changed(node: Any, key: Any, value: Any) -> Any:
    return node if node[key] is value else _replaced(node, key, value)


def _taken(node: Any, key: Any, rule: str) -> Any:
    inner = node[key]
    if rule in _KEPT:
        return node
    if rule in _BLANKED:
        return node if inner == REDACTED else _replaced(node, key, REDACTED)
    if rule in _HOLLOWED and isinstance(inner, dict):
        shell = _HOLLOWED[rule]
        hollow = {field: inner[field] if shell[field] is None else shell[field] for field in shell if field in inner}
        return node if hollow == inner else _replaced(node, key, hollow)
    if isinstance(node, list):
        # A hole, so that the other elements keep their index.
        return node if inner is None else _replaced(node, key, None)
    return {field: value for field, value in node.items() if field != key}


def _replaced(node: Any, key: Any, value: Any) -> Any:
    copy = node.copy()
    copy[key] = value
    return copy


def retention_end(record: Mapping[str, Any]) -> int | None:
    """The instant from which the record must be tombstoned (section 2.7), if its consent sets one."""
    consent = record.get("consent")
    retention = consent.get("retention") if isinstance(consent, dict) else None
    if not isinstance(retention, str):
        return None
    try:
        return parse_instant(record["time"]["created"]) + parse_duration_ms(retention)
    except (ValueError, OverflowError):
        return None
