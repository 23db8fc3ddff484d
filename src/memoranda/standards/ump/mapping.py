"""UMP records to and from the neutral model.

`project` maps a record to the fields that the store filters and ranks by. `from_projection` shows a memory of another
standard as a record. Such a view contains the original under `body.structured["memoranda:native"]`, so that importing
it restores the original byte for byte.

Direction 1, `project`, loses information on purpose: it returns what the store searches and filters by. Direction 2,
`from_projection`, must lose nothing: whatever UMP cannot express stays in the embedded original, and parts that do not
fit are cut and named (CUT_KEY). The id of a view depends only on owner, project and original, so the same memory has
the same id in every export. Careful: what `project` returns decides search, access and retention. A new field there
needs a column or facet (`service/core/indexing.py`), a line in `verify`, and the same in the mappings of the other
standards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from memoranda.encoding.json_text import dump
from memoranda.model.bounds import narrower_visibility
from memoranda.model.instant import Instant, format_duration, format_instant, parse_instant
from memoranda.model.memory import (
    CLAIMED_KEY,
    CUT_KEY,
    NATIVE_KEY,
    UMP,
    Bounds,
    Document,
    Projection,
    Relation,
    Scope,
    unwrap_document,
    wrap_document,
)
from memoranda.model.titles import NAMES_KEY, collect_titles
from memoranda.standards.ump import rules, shapes
from memoranda.standards.ump.record import (
    CONTROL_PATTERN,
    MAX_RELATIONS,
    MAX_TEXT_BYTES,
    Record,
    sort_record_fields,
)
from memoranda.standards.ump.shapes import MAX_NAME_CHARS, NAME_EXPECTED, Consent
from memoranda.standards.ump.signature import derive_id_from_bytes

# The tag by which views of other standards mark a candidate.
CANDIDATE_TAG = "candidate"
# UMP has no tags; relations of type `about` express them.
TAG_PREFIX = "tag:"
STANDARD = UMP
MEDIA_TYPE = "application/vnd.ump+json"


def owns(document: Document) -> bool:
    """Return True if a document is a record."""
    return document.standard == STANDARD


def project(record: Record) -> Projection:
    """Map a complete record to the neutral model.

    Expects a checked record. `evidence_count` and `sameness` are used by merging; `redacted` tells that others see only
    a part.
    """
    scope, time = record["scope"], record["time"]
    lifecycle = record.get("lifecycle", {})
    provenance = record.get("provenance", {})
    created = parse_instant(time["created"])
    relations = tuple(
        Relation(type=r["type"], target=r["target"]) for r in record.get("relations", ())
    )
    expires = rules.retention_end(record)
    structured = record["body"].get("structured") or {}
    basis = structured.get("processing_basis")
    tags = tuple(r.target.removeprefix(TAG_PREFIX) for r in relations if is_tag(r.type, r.target))
    if lifecycle.get("status") == "candidate" and CANDIDATE_TAG not in tags:
        # Other standards have no such status, so a tag tells their readers.
        tags = (*tags, CANDIDATE_TAG)
    return Projection(
        kind=record["kind"],
        text=record["body"]["text"],
        titles=titles_of(record),
        scope=Scope(
            tenant=scope["owner"],
            space=scope.get("project", ""),
            user=scope.get("user", ""),
            agent=scope.get("agent", ""),
            session=scope.get("session", ""),
            visibility=scope.get("visibility", "private"),
        ),
        created=created,
        observed=_parse_optional(time.get("observed")) or created,
        valid_from=_parse_optional(time.get("valid_from")) or created,
        valid_to=_parse_optional(time.get("valid_to")),
        expires=None if expires is None else Instant(expires),
        status=lifecycle.get("status", "active"),
        confidence=lifecycle.get("confidence"),
        salience=lifecycle.get("salience"),
        evidence_count=len(provenance.get("evidence", ())),
        exportable=record.get("consent", {}).get("exportable", True),
        redacted=rules.redact(record)[1],
        tags=tags,
        relations=tuple(r for r in relations if not is_tag(r.type, r.target)),
        source=provenance.get("source", {}).get("ref", ""),
        actor=provenance.get("actor", ""),
        subject=_find_subject(record),
        sameness=rules.fact_key(record),
        basis=basis if isinstance(basis, str) else "",
        may_protect=NATIVE_KEY in structured,
    )


def titles_of(record: Record) -> tuple[str, ...]:
    """Return the names of a record beside its text, the title first."""
    structured = record["body"].get("structured") or {}
    links = record.get("relations", ())
    tags = [
        link["target"].removeprefix(TAG_PREFIX)
        for link in links
        if is_tag(link["type"], link["target"])
    ]
    return collect_titles(structured, tags) if structured or tags else ()


def with_names(record: Record, names: list[str]) -> Record:
    """Return a record with some names in its structured data, unless it has names there."""
    structured = record["body"].get("structured") or {}
    if not names or NAMES_KEY in structured:
        return record
    return {**record, "body": {**record["body"], "structured": {**structured, NAMES_KEY: names}}}


def searched_text(record: Record) -> str:
    """Return the text of a record with its titles, as keyword search finds it."""
    titles = titles_of(record)
    text = record["body"]["text"]
    return "\n".join((text, *titles)) if titles else text


def is_tag(relation: str, target: str) -> bool:
    """Return True if a relation of a record expresses a tag."""
    return relation == "about" and target.startswith(TAG_PREFIX) and target != TAG_PREFIX


def _find_subject(record: Record) -> str:
    """Return the subject: the user, else the first entity that the record is about, else the owner."""
    targets = [link["target"] for link in record.get("relations", ()) if link["type"] == "about"]
    about = [target for target in targets if not target.startswith(TAG_PREFIX)]
    scope = record["scope"]
    return str(scope.get("user") or (about[0] if about else "") or scope["owner"])


def from_projection(
    projection: Projection, original: Document, *, version: shapes.Version
) -> Record:
    """Return a memory of another standard as an unsigned record, with an id derived from the original's bytes.

    The record is unsigned; the store signs it as operator when it is shown. `version` is the UMP version that the store
    writes.
    """
    scope = projection.scope
    context = {name: _to_name(value) for name, value in _optional_scope(scope) if value}
    lifecycle: shapes.Lifecycle = {}
    if projection.confidence is not None:
        lifecycle["confidence"] = projection.confidence
    if projection.salience is not None:
        lifecycle["salience"] = projection.salience
    lifecycle["status"] = projection.status
    about = [
        shapes.Relation(type="about", target=_to_name(TAG_PREFIX + tag)) for tag in projection.tags
    ]
    links = [
        shapes.Relation(type=_to_name(link.type), target=_to_name(link.target))
        for link in projection.relations
    ]
    cut_parts = _find_cut_parts(projection)
    carried = {NATIVE_KEY: wrap_document(original), **({CUT_KEY: cut_parts} if cut_parts else {})}
    valid_to = None if projection.valid_to is None else format_instant(projection.valid_to)
    record: Record = {
        "ump": version,
        "id": derive_view_id(scope, original),
        "kind": projection.kind,
        "body": {"text": _cut_text(projection.text), "structured": carried},
        "scope": cast(
            "shapes.Scope", {"owner": scope.tenant, **context, "visibility": scope.visibility}
        ),
        "time": {
            "created": format_instant(projection.created),
            "observed": format_instant(projection.observed),
            "valid_from": format_instant(projection.valid_from),
            "valid_to": valid_to,
        },
        "lifecycle": lifecycle,
        "superseded_by": [],
        "provenance": {
            "actor": _to_name(projection.actor or scope.tenant),
            "actor_kind": "import",
            "method": f"memoranda:{original.standard}",
            "source": {
                "ref": _to_name(projection.source or original.name),
                "provider": original.standard,
            },
        },
    }
    if about or links:
        record["relations"] = (links + about)[:MAX_RELATIONS]
    consent = _consent_of(projection)
    if consent:
        record["consent"] = consent
    return sort_record_fields(record)


def _consent_of(projection: Projection) -> shapes.Consent:
    """Return the consent that says how long a memory is kept and whether it may leave."""
    if projection.expires is not None:
        retention = format_duration(max(0, projection.expires - projection.created))
        return {"retention": retention, "exportable": projection.exportable}
    if not projection.exportable:
        return {"exportable": False}
    return {}


def _optional_scope(scope: Scope) -> tuple[tuple[str, str], ...]:
    """Return the optional fields of a scope under their names in UMP."""
    return (
        ("user", scope.user),
        ("project", scope.space),
        ("agent", scope.agent),
        ("session", scope.session),
    )


def _find_cut_parts(projection: Projection) -> dict[str, str]:
    """Return the path of each part that a record has no room for and shows cut, with the limit."""
    cut_parts: dict[str, str] = {}
    text = projection.text
    if len(text) * 4 > MAX_TEXT_BYTES and (size := len(text.encode("utf-8"))) > MAX_TEXT_BYTES:
        cut_parts["body.text"] = (
            f"a record holds at most {MAX_TEXT_BYTES} bytes, and the original has {size}"
        )
    count = len(projection.tags) + len(projection.relations)
    if count > MAX_RELATIONS:
        cut_parts["relations"] = (
            f"a record holds at most {MAX_RELATIONS}, and the original has {count}"
        )
    elif not all(map(_is_name, _names_in_relations(projection))):
        cut_parts["relations"] = f"a name {NAME_EXPECTED}"
    for name, value in _optional_scope(projection.scope):
        if value and not _is_name(value):
            cut_parts[f"scope.{name}"] = f"it {NAME_EXPECTED}"
    return cut_parts


def _names_in_relations(projection: Projection) -> Iterator[str]:
    """Yield the names in the relations that show a projection."""
    for tag in projection.tags:
        yield TAG_PREFIX + tag
    for relation in projection.relations:
        yield relation.type
        yield relation.target


def _is_name(text: str) -> bool:
    """Return True if a text fits into a name of UMP as it is."""
    return len(text) <= MAX_NAME_CHARS and CONTROL_PATTERN.search(text) is None


def document_of(record: Record) -> Document:
    """Return a signed record as a native document."""
    return Document(
        standard=STANDARD, media_type=MEDIA_TYPE, name=record["id"], native=dump(record)
    )


def derive_view_id(scope: Scope, original: Document) -> str:
    """Return the id of the record that shows a document of another standard.

    It depends only on the owner, the project and the document, so it can be computed without building the record.
    """
    identity = "\x00".join(
        (scope.tenant, scope.space, original.standard, original.media_type, original.name, "")
    )
    return derive_id_from_bytes(identity.encode("utf-8", "surrogatepass") + original.native)


# Parts redacted in a view of another standard, where the content that the paths name may be anywhere.
_REDACTED_IN_VIEWS = ("body.text", "body.structured")


def with_bounds(record: Record, bounds: Bounds) -> Record:
    """Return an unsigned record with the restrictions inherited from earlier versions of its memory.

    A later version must not be wider than an earlier one: visibility becomes the narrower of both, retention the
    earlier, and redacted paths accumulate. If the writer of the record was not its first writer, the claimed actor
    moves to `memoranda:claimed`.
    """
    restricted = record.copy()
    restricted.pop("integrity", None)
    scope, consent = record["scope"].copy(), record.get("consent", Consent()).copy()
    scope["visibility"] = narrower_visibility(scope.get("visibility", "private"), bounds.visibility)
    for name in ("user", "agent", "session"):
        if (inherited := getattr(bounds, name)) and not scope.get(name):
            scope[name] = _to_name(inherited)
    if bounds.expires is not None:
        consent["retention"] = format_duration(
            max(0, bounds.expires - parse_instant(record["time"]["created"]))
        )
    if not bounds.exportable:
        consent["exportable"] = False
    if bounds.redact:
        cut_fields = _REDACTED_IN_VIEWS if unwrap(record) is not None else ()
        consent["redact"] = list(
            dict.fromkeys((*consent.get("redact", ()), *bounds.redact, *cut_fields))
        )
    if bounds.writer:
        provenance: shapes.Provenance = record["provenance"]
        claimed = {"actor": provenance["actor"], "actor_kind": provenance["actor_kind"]}
        restricted["provenance"] = {**provenance, "actor": bounds.writer}
        structured = {**(record["body"].get("structured") or {}), CLAIMED_KEY: claimed}
        restricted["body"] = {**record["body"], "structured": structured}
    restricted["scope"] = scope
    if consent:
        restricted["consent"] = consent
    return sort_record_fields(restricted)


def _to_name(text: str) -> str:
    """Return a text of another standard as a UMP name: on one line and cut; the original is complete."""
    return CONTROL_PATTERN.sub("\ufffd", text)[:MAX_NAME_CHARS]


def _cut_text(text: str) -> str:
    """Cut a text to the maximum length of a record."""
    if len(text) * 4 <= MAX_TEXT_BYTES:
        return text
    return text.encode("utf-8")[:MAX_TEXT_BYTES].decode("utf-8", "ignore")


def unwrap(record: Record) -> Document | None:
    """Return the original document in a view of another standard, or None."""
    return unwrap_document(record["body"].get("structured"))


def _parse_optional(text: str | None) -> Instant | None:
    """Parse an optional instant."""
    return None if text is None else parse_instant(text)
