"""UMP records to and from the neutral model.

Towards the model: what the store filters and ranks by. From the model: how a memory written through another
standard looks as a record. Such a record carries the original under `body.structured["memoranda:native"]`, so
that taking it back restores the original byte for byte.
"""

from __future__ import annotations

from typing import cast

from memoranda.model import native
from memoranda.model.bounds import narrower
from memoranda.model.instant import Instant, format_duration, format_instant, parse_instant
from memoranda.model.memory import Bounds, Document, Projection, Relation, Scope
from memoranda.model.native import CLAIMED_KEY, NATIVE_KEY
from memoranda.model.standard import UMP
from memoranda.standards.ump import rules, shapes
from memoranda.standards.ump.canonical import derived_name
from memoranda.standards.ump.record import (
    CONTROL_PATTERN,
    MAX_RELATIONS,
    MAX_TEXT_BYTES,
    Record,
    ordered,
)
from memoranda.standards.ump.shapes import MAX_NAME_CHARS, Consent

# UMP has no tags; what a memory is about stands for them.
TAG_PREFIX = "tag:"
STANDARD = UMP
MEDIA_TYPE = "application/vnd.ump+json"


def project(record: Record) -> Projection:
    """Read a complete record without UMP's words."""
    scope, time = record["scope"], record["time"]
    lifecycle = record.get("lifecycle", {})
    provenance = record.get("provenance", {})
    created = parse_instant(time["created"])
    relations = tuple(Relation(type=r["type"], target=r["target"]) for r in record.get("relations", ()))
    expires = rules.retention_end(record)
    return Projection(
        kind=record["kind"],
        text=record["body"]["text"],
        scope=Scope(
            tenant=scope["owner"],
            space=scope.get("project", ""),
            user=scope.get("user", ""),
            agent=scope.get("agent", ""),
            session=scope.get("session", ""),
            visibility=scope.get("visibility", "private"),
        ),
        created=created,
        observed=_instant(time.get("observed")) or created,
        valid_from=_instant(time.get("valid_from")) or created,
        valid_to=_instant(time.get("valid_to")),
        expires=None if expires is None else Instant(expires),
        status=lifecycle.get("status", "active"),
        confidence=lifecycle.get("confidence"),
        salience=lifecycle.get("salience"),
        evidence_count=len(provenance.get("evidence", ())),
        exportable=record.get("consent", {}).get("exportable", True),
        redacted=rules.redact(record)[1],
        tags=tuple(r.target.removeprefix(TAG_PREFIX) for r in relations if _is_tag(r)),
        relations=tuple(r for r in relations if not _is_tag(r)),
        source=provenance.get("source", {}).get("ref", ""),
        actor=provenance.get("actor", ""),
        subject=_subject(record),
        sameness=rules.same_fact(record),
        basis=basis
        if isinstance(basis := (record["body"].get("structured") or {}).get("processing_basis"), str)
        else "",
        may_protect=NATIVE_KEY in (record["body"].get("structured") or {}),
    )


def _is_tag(relation: Relation) -> bool:
    return relation.type == "about" and relation.target.startswith(TAG_PREFIX) and relation.target != TAG_PREFIX


def _subject(record: Record) -> str:
    """Whom or what it is about: the user, else the first entity it names, else the owner."""
    linked = record.get("relations", ())
    about = [each["target"] for each in linked if each["type"] == "about" and not each["target"].startswith(TAG_PREFIX)]
    return str(record["scope"].get("user") or (about[0] if about else "") or record["scope"]["owner"])


def from_projection(projection: Projection, original: Document, *, version: shapes.Version) -> Record:
    """A memory of another standard as an unsigned record; its name is derived from the original's bytes."""
    scope = projection.scope
    optional_scope = {"user": scope.user, "project": scope.space, "agent": scope.agent, "session": scope.session}
    place = {name: _name(value) for name, value in optional_scope.items() if value}
    lifecycle: shapes.Lifecycle = {}
    if projection.confidence is not None:
        lifecycle["confidence"] = projection.confidence
    if projection.salience is not None:
        lifecycle["salience"] = projection.salience
    lifecycle["status"] = projection.status
    about = [shapes.Relation(type="about", target=_name(TAG_PREFIX + tag)) for tag in projection.tags]
    linked = [shapes.Relation(type=_name(each.type), target=_name(each.target)) for each in projection.relations]
    record: Record = {
        "ump": version,
        "id": view_name(scope, original),
        "kind": projection.kind,
        "body": {"text": _bearable(projection.text), "structured": {NATIVE_KEY: native.wrap(original)}},
        "scope": cast("shapes.Scope", {"owner": scope.tenant, **place, "visibility": scope.visibility}),
        "time": {
            "created": format_instant(projection.created),
            "observed": format_instant(projection.observed),
            "valid_from": format_instant(projection.valid_from),
            "valid_to": None if projection.valid_to is None else format_instant(projection.valid_to),
        },
        "lifecycle": lifecycle,
        "superseded_by": [],
        "provenance": {
            "actor": _name(projection.actor or scope.tenant),
            "actor_kind": "import",
            "method": f"memoranda:{original.standard}",
            "source": {"ref": _name(projection.source or original.name), "provider": original.standard},
        },
    }
    if about or linked:
        record["relations"] = (linked + about)[:MAX_RELATIONS]
    if projection.expires is not None:
        retention = format_duration(max(0, projection.expires - projection.created))
        record["consent"] = {"retention": retention, "exportable": projection.exportable}
    elif not projection.exportable:
        record["consent"] = {"exportable": False}
    return ordered(record)


def view_name(scope: Scope, original: Document) -> str:
    """The name of the record that shows a document of another standard: whose it is, where, and the document itself.

    Nothing else goes into it, so that it can be told without making the record.
    """
    said = "\x00".join((scope.tenant, scope.space, original.standard, original.media_type, original.name, ""))
    return derived_name(said.encode("utf-8", "surrogatepass") + original.native)


# What is cut of a record whose document is another's: what the paths name may stand anywhere in it.
_FOREIGN_CUT = ("body.text", "body.structured")


def with_bounds(record: Record, bounds: Bounds) -> Record:
    """A record that also says what earlier versions of its memory bind it to; unsigned."""
    bound = record.copy()
    bound.pop("integrity", None)
    scope, consent = record["scope"].copy(), record.get("consent", Consent()).copy()
    scope["visibility"] = narrower(scope.get("visibility", "private"), bounds.visibility)
    for name in ("user", "agent", "session"):
        if (inherited := getattr(bounds, name)) and not scope.get(name):
            scope[name] = _name(inherited)
    if bounds.expires is not None:
        consent["retention"] = format_duration(max(0, bounds.expires - parse_instant(record["time"]["created"])))
    if not bounds.exportable:
        consent["exportable"] = False
    if bounds.redact:
        cut = _FOREIGN_CUT if unwrap(record) is not None else ()
        consent["redact"] = list(dict.fromkeys((*consent.get("redact", ()), *bounds.redact, *cut)))
    if bounds.writer:
        provenance: shapes.Provenance = record["provenance"]
        claimed = {"actor": provenance["actor"], "actor_kind": provenance["actor_kind"]}
        bound["provenance"] = {**provenance, "actor": bounds.writer}
        structured = {**(record["body"].get("structured") or {}), CLAIMED_KEY: claimed}
        bound["body"] = {**record["body"], "structured": structured}
    bound["scope"] = scope
    if consent:
        bound["consent"] = consent
    return ordered(bound)


def _name(text: str) -> str:
    """A text of another standard as one of our names, on one line and not too long; the original is inside."""
    return CONTROL_PATTERN.sub("\ufffd", text)[:MAX_NAME_CHARS]


def _bearable(text: str) -> str:
    """As much of a text as a record may say."""
    if len(text) * 4 <= MAX_TEXT_BYTES:
        return text
    return text.encode("utf-8")[:MAX_TEXT_BYTES].decode("utf-8", "ignore")


def unwrap(record: Record) -> Document | None:
    """The original document that a foreign view carries, if the record is one."""
    return native.unwrap(record["body"].get("structured"))


def _instant(text: str | None) -> Instant | None:
    return None if text is None else parse_instant(text)
