"""The UMP record: its closed sets, limits, validation and defaults (sections 2 and 3.3).

A record is a plain dictionary (typed in `shapes`), stored as it was sent, because any change of its content would
change its hash. Unknown fields are refused, as in the schema of the standard: a misspelt `consent` would otherwise have
no effect. Extensions belong in `body.structured`.

`problems` returns all errors at once, in the order in which the reference implementation reports them.

Three stages of a record: a *draft* (what a client sends, checked by `check`), a *record* with defaults
(`fill_defaults`), and a signed record (`signature.seal`). Only the last is stored. Records from files skip the first
two and are checked by `check_complete`. If the standard gets a new field: add it to `shapes`, to `KEY_ORDER` and
`CLOSED`, write a check into `_CHECKS`, and decide in `rules.py` how merging and revising treat it. Each limit here
exists because a hostile record must not fill memory or the index; limits are in bytes, characters or entries as their
comments say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, cast, get_args

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput
from memoranda.model.instant import format_instant, parse_duration_ms, parse_instant
from memoranda.standards.ump.paths import is_impossible_path, parse_path
from memoranda.standards.ump.shapes import (
    CLOSED,
    DEFAULT_CONFIDENCE,
    MAX_NAME_CHARS,
    NAME_EXPECTED,
    ActorKind,
    Kind,
    Lifecycle,
    Scope,
    Status,
    Time,
    Version,
    Visibility,
)
from memoranda.standards.ump.shapes import (
    Draft as Draft,
)
from memoranda.standards.ump.shapes import (
    Record as Record,
)

# The DID and the kind of an actor.
Actor = tuple[str, ActorKind]

VERSIONS: Final[tuple[str, ...]] = get_args(Version)
KINDS: Final[tuple[str, ...]] = get_args(Kind)
VISIBILITIES: Final[tuple[str, ...]] = get_args(Visibility)
STATUSES: Final[tuple[str, ...]] = get_args(Status)
ACTOR_KINDS: Final[tuple[str, ...]] = get_args(ActorKind)
SCOPE_FIELDS: Final = ("owner", "user", "project", "agent", "session", "visibility")

DEFAULT_VISIBILITY: Final = "private"

# Bytes of one record in canonical form; one request can contain it.
MAX_RECORD_BYTES: Final = json_text.MAX_BYTES
# Bytes. A memory is read completely into a model's context, and a quarter MiB is already a book chapter.
MAX_TEXT_BYTES: Final = 262_144
# Entries of the lists in a record.
MAX_RELATIONS: Final = 256
MAX_EVIDENCE: Final = 256
MAX_REDACT_PATHS: Final = 64
# Entries. Each successor may list the complete chain of its predecessors.
MAX_SUPERSEDES: Final = 10_000
# Characters. Our identifiers have 26 (random) or 52 (derived) after the prefix; foreign ones may be longer.
MAX_ID_CHARS: Final = 256

ID_PATTERN: Final = re.compile(r"urn:ump:[a-z2-7]+", re.ASCII)
# Section 2: REQUIRED.
_REQUIRED_FIELDS: Final = frozenset(("ump", "id", "kind", "body", "scope", "time"))
# C0 controls and DEL would break lines, frames and C strings.
CONTROL_PATTERN: Final = re.compile(r"[\x00-\x1f\x7f]")
# A version as major and minor number; nobody needs more than three digits.
_VERSION_PATTERN: Final = re.compile(
    r"(?P<major>0|[1-9]\d{0,2})\.(?P<minor>0|[1-9]\d{0,2})", re.ASCII
)

KEY_ORDER: Final = (
    "ump",
    "id",
    "kind",
    "body",
    "scope",
    "time",
    "lifecycle",
    "supersedes",
    "superseded_by",
    "relations",
    "provenance",
    "consent",
    "integrity",
)


def check(value: object, *, require_provenance: bool = True) -> Draft:
    """Return the draft. Raises InvalidInput with all errors if it is not valid."""
    _raise_errors(find_problems(value, require_provenance=require_provenance))
    return cast("Draft", value)


def check_complete(value: object, *, require_provenance: bool = False) -> Record:
    """Return the complete record, as in files and signed imports. Raises InvalidInput if it is not valid.

    Provenance is not required by default: files of level L0 and L1 have none.

    Does not verify the signature.
    """
    errors = find_problems(value, require_provenance=require_provenance)
    if isinstance(value, dict):
        # `find_problems` has checked the other required fields.
        errors += [f"{field} is required" for field in ("ump", "id", "time") if field not in value]
        time = value.get("time")
        if isinstance(time, dict) and "created" not in time:
            errors.append("time.created is required")
    _raise_errors(errors)
    return cast("Record", value)


def _raise_errors(errors: list[str]) -> None:
    """Raise InvalidInput with the errors, if any."""
    if errors:
        raise InvalidInput("; ".join(errors))


def fill_defaults(draft: Draft, *, now: int, version: Version) -> Record:
    """Return a record with defaults for everything that a checked draft omits (section 3.3).

    The id stays empty if the draft has none. `now` is in milliseconds since 1970.

    The result has all the fields that section 3.3 promises to readers, in the order of the specification. Times in the
    draft are kept exactly as written, since a signature of the client may cover them.
    """
    moment = format_instant(now)
    scope: Scope = {**draft["scope"]}
    # The specification's own example omits visibility; the narrowest one is the safe default.
    scope.setdefault("visibility", DEFAULT_VISIBILITY)
    time: Time = draft.get("time", {})
    lifecycle: Lifecycle = {
        "status": "active",
        "confidence": DEFAULT_CONFIDENCE,
        **draft.get("lifecycle", {}),
    }
    record: Record = {
        **draft,
        # Section 8 (1.0): a server MUST emit the version it advertises. Fields of a later one keep their version.
        "ump": draft["ump"] if draft.keys() - set(KEY_ORDER) else version,
        "id": draft.get("id", ""),
        "scope": scope,
        "time": {
            **time,
            "created": time.get("created", moment),
            "observed": time.get("observed", moment),
            "valid_from": time.get("valid_from", moment),
            "valid_to": time.get("valid_to"),
        },
        "lifecycle": lifecycle,
        "superseded_by": draft.get("superseded_by", []),
    }
    return sort_record_fields(record)


def sort_record_fields(record: Record) -> Record:
    """Return a copy of the record with its fields in the specification's order."""
    return cast("Record", sort_known_fields(record))


def sort_known_fields(fields: Mapping[str, object]) -> dict[str, object]:
    """Return a copy with the fields in the specification's order; unknown fields keep their order at the end."""
    ordered_fields = {key: fields[key] for key in KEY_ORDER if key in fields}
    return {**ordered_fields, **fields}


def strip_integrity(record: Record) -> Record:
    """Return a copy without its integrity block, because a changed record must be signed again."""
    copy = record.copy()
    copy.pop("integrity", None)
    return copy


def find_problems(value: object, *, require_provenance: bool = True) -> list[str]:
    """Return everything that makes a JSON value an invalid draft record; empty for a valid one.

    The order and the wording of the messages follow the reference implementation, because its test vectors compare
    them.
    """
    if not isinstance(value, dict):
        return ["a record must be an object"]
    errors: list[str] = []
    is_later = is_later_minor(value.get("ump"))
    if not is_later:
        _check_version(value, errors)
    _check_body(value.get("body"), errors)
    if value.get("kind") not in KINDS:
        # Section 2.1: a consumer MUST accept all five kinds.
        errors.append(f"kind must be one of {'|'.join(KINDS)}")
    _check_scope(value.get("scope"), errors)
    if "id" in value and not is_id(value["id"]):
        errors.append("id must match urn:ump:<base32>")
    for field, check_field in _CHECKS.items():
        if field in value:
            check_field(value[field], errors)
    if require_provenance and "provenance" not in value:
        # Section 2.6: provenance is REQUIRED at L2+.
        errors.append("provenance is required at L2+")
    if "integrity" not in value:
        _check_import_source(value.get("provenance"), errors)
    _check_field_names(value, "", errors, is_open=is_later)
    if not errors:
        _check_size(value, errors)
    return errors


def find_patch_problems(patch: Mapping[str, object]) -> list[str]:
    """Return the errors in the fields of a revision (section 3.5)."""
    errors: list[str] = []
    if "body" in patch:
        _check_body(patch["body"], errors)
    for field in ("lifecycle", "relations", "time", "consent"):
        if field in patch:
            _CHECKS[field](patch[field], errors)
    _check_field_names(patch, "", errors)
    if not errors:
        _check_size(patch, errors)
    return errors


def is_partial(value: Mapping[str, object]) -> bool:
    """Return True if a record lacks a field that a complete one needs, such as its id or the time of its creation."""
    time = value.get("time")
    return not value.keys() >= _REQUIRED_FIELDS or (
        isinstance(time, dict) and "created" not in time
    )


def complete_draft(
    draft: Mapping[str, object],
    *,
    owner: str,
    project: str | None = None,
    agent: str = "",
    origin: Mapping[str, object],
) -> dict[str, object]:
    """Return a draft with the defaults of its writer: owner, project, agent and provenance (`origin`).

    An import without a provider gets the file as its provider (section 2.6).

    `origin` is the provenance that the caller knows: actor, kind of actor and method. Fields of the draft always win;
    wrong types are left for `find_problems` to report.
    """
    completed = dict(draft)
    scope, provenance = completed.get("scope", {}), completed.get("provenance", {})
    if isinstance(scope, dict):
        defaults = {"owner": owner, "project": project, "agent": agent or None}
        defaults = {name: value for name, value in defaults.items() if value is not None}
        completed["scope"] = {**defaults, **scope}
    if isinstance(provenance, dict):
        details = provenance if "actor" in provenance else {**origin, **provenance}
        source = details.get("source", {})
        is_from_file = origin.get("actor_kind") == "import"
        is_import = "actor" not in provenance or details.get("actor_kind") == "import"
        if is_from_file and is_import and isinstance(source, dict):
            details = {**details, "source": {"provider": "file", **source}}
        completed["provenance"] = details
    return completed


def is_later_minor(value: object) -> bool:
    """Return True for a later minor version of a major version that this server speaks, such as 0.2 or 1.1.

    It may have fields that are not known here. They are kept, because a signature covers them.

    A record of a later minor version passes with unknown fields at the top level, and its `ump` field is not changed.
    """
    match = _VERSION_PATTERN.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return False
    return any(
        match["major"] == major and int(match["minor"]) > int(minor)
        for major, minor in (name.split(".") for name in VERSIONS)
    )


def is_id(value: object) -> bool:
    """Return True if the value is a record identifier (section 6.2)."""
    return (
        isinstance(value, str)
        and len(value) <= MAX_ID_CHARS
        and ID_PATTERN.fullmatch(value) is not None
    )


def is_name(value: object) -> bool:
    """Return True if the value is a non-empty string of one line and limited length."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= MAX_NAME_CHARS
        and CONTROL_PATTERN.search(value) is None
    )


def _check_field_names(
    value: Mapping[str, object], path: str, errors: list[str], *, is_open: bool = False
) -> None:
    """Report unknown fields. The schema closes every object except `body.structured`.

    `is_open` permits other names at this level.
    """
    permitted = CLOSED[path] if path else KEY_ORDER
    for name, inner in value.items():
        location = f"{path}.{name}" if path else name
        if name not in permitted and not is_open:
            errors.append(
                f"{location[:60]!a} is not a field of a record; the fields are {', '.join(permitted)}"
            )
        elif location in CLOSED:
            for item in inner if isinstance(inner, list) else (inner,):
                if isinstance(item, dict):
                    _check_field_names(item, location, errors)


def _check_version(value: Mapping[str, object], errors: list[str]) -> None:
    """Report a version that this server does not accept."""
    # Section 8 (1.0): a 1.0 peer MAY import 0.1 records. A server of 0.1 reads both as well: the record is the same.
    if "ump" in value and value["ump"] not in VERSIONS:
        errors.append(f"ump version must be {' or '.join(VERSIONS)}")


def _check_body(body: object, errors: list[str]) -> None:
    """Report errors in the body."""
    text = body.get("text") if isinstance(body, dict) else None
    if not isinstance(text, str) or not text:
        errors.append("body.text is required")
    elif len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
        errors.append(f"body.text must be at most {MAX_TEXT_BYTES} bytes")
    # The reference implementation accepts null here, so null is accepted and stored unchanged.
    if isinstance(body, dict) and not isinstance(body.get("structured"), dict | None):
        errors.append("body.structured must be an object")


def _check_scope(scope: object, errors: list[str]) -> None:
    """Report errors in the scope."""
    if scope is not None and not isinstance(scope, dict):
        errors.append("scope must be an object")
        return
    fields = scope or {}
    if not fields.get("owner"):
        # Section 2.2: owner is REQUIRED.
        errors.append("scope.owner (DID) is required")
    if "visibility" in fields and fields["visibility"] not in VISIBILITIES:
        errors.append(f"scope.visibility must be {'|'.join(VISIBILITIES)}")
    errors.extend(
        f"scope.{field} {NAME_EXPECTED}"
        for field in SCOPE_FIELDS[:-1]
        if field in fields
        and not (is_name(fields[field]) or (field == "owner" and not fields[field]))
    )


def _check_lifecycle(lifecycle: object, errors: list[str]) -> None:
    """Report errors in the lifecycle."""
    if not isinstance(lifecycle, dict):
        errors.append("lifecycle must be an object")
        return
    if "status" in lifecycle and lifecycle["status"] not in STATUSES:
        errors.append(f"lifecycle.status must be {'|'.join(STATUSES)}")
    errors.extend(
        f"lifecycle.{field} must be a number in [0,1]"
        for field in ("confidence", "salience")
        if field in lifecycle and not (_is_number(lifecycle[field]) and 0 <= lifecycle[field] <= 1)
    )
    if "decay" in lifecycle and not is_name(lifecycle["decay"]):
        errors.append(f"lifecycle.decay {NAME_EXPECTED}")


def _check_provenance(provenance: object, errors: list[str]) -> None:
    """Report errors in the provenance."""
    if not isinstance(provenance, dict):
        errors.append("provenance must be an object")
        return
    if not provenance.get("actor"):
        errors.append("provenance.actor is required when provenance present")
    elif not is_name(provenance["actor"]):
        errors.append(f"provenance.actor {NAME_EXPECTED}")
    if provenance.get("actor_kind") not in ACTOR_KINDS:
        errors.append(f"provenance.actor_kind must be {'|'.join(ACTOR_KINDS)}")
    if not provenance.get("method"):
        errors.append("provenance.method is required when provenance present")
    elif not is_name(provenance["method"]):
        errors.append(f"provenance.method {NAME_EXPECTED}")
    if "source" in provenance:
        _check_names(provenance["source"], (), ("ref", "provider"), "provenance.source", errors)
    if "evidence" in provenance:
        _check_evidence(provenance["evidence"], errors)


def _check_import_source(provenance: object, errors: list[str]) -> None:
    """Report an import that does not name its provider."""
    if not isinstance(provenance, dict) or provenance.get("actor_kind") != "import":
        return
    source = provenance.get("source")
    if not isinstance(source, dict) or "provider" not in source:
        # Section 2.6: "actor_kind=import carries a source.provider so cross-vendor imports stay attributable".
        errors.append("provenance.source.provider is required when actor_kind is import")


def _check_evidence(evidence: object, errors: list[str]) -> None:
    """Report errors in the evidence."""
    if not isinstance(evidence, list) or len(evidence) > MAX_EVIDENCE:
        errors.append(f"provenance.evidence must be an array of at most {MAX_EVIDENCE} objects")
        return
    for index, item in enumerate(evidence):
        path = f"provenance.evidence.{index}"
        if isinstance(item, dict) and "weight" in item and not _is_number(item["weight"]):
            errors.append(f"{path}.weight must be a number")
        names: object = item
        if isinstance(item, dict):
            names = {key: entry for key, entry in item.items() if key != "weight"}
        _check_names(names, ("ref",), (), path, errors)


def _check_consent(consent: object, errors: list[str]) -> None:
    """Report errors in the consent."""
    if not isinstance(consent, dict):
        errors.append("consent must be an object")
        return
    if "retention" in consent and not _is_parsable(consent["retention"], parse_duration_ms):
        errors.append("consent.retention must be an ISO-8601 duration (starts with P)")
    if "exportable" in consent and not isinstance(consent["exportable"], bool):
        errors.append("consent.exportable must be a boolean")
    if "redact" in consent:
        paths = consent["redact"]
        if not isinstance(paths, list) or len(paths) > MAX_REDACT_PATHS:
            errors.append(f"consent.redact must be an array of at most {MAX_REDACT_PATHS} paths")
        else:
            errors.extend(
                f"consent.redact.{index} must be a path into the record: body.structured.token, JSONPath (RFC 9535, "
                "without filters) or JSON Pointer"
                for index, path in enumerate(paths)
                if not _is_record_path(path)
            )


def _is_record_path(value: object) -> bool:
    """Return True if the value is a path that can exist in a record."""
    if not is_name(value):
        return False
    path = parse_path(cast("str", value))
    return path is not None and not is_impossible_path(path)


def _check_time(time: object, errors: list[str]) -> None:
    """Report errors in the times."""
    if not isinstance(time, dict):
        errors.append("time must be an object")
        return
    for field in ("created", "observed", "valid_from", "valid_to"):
        if field not in time or (field == "valid_to" and time[field] is None):
            continue
        if not _is_parsable(time[field], parse_instant):
            errors.append(f"time.{field} must be an RFC 3339 date-time with an offset")
    starts, ends = time.get("valid_from"), time.get("valid_to")
    is_span = _is_parsable(starts, parse_instant) and _is_parsable(ends, parse_instant)
    if is_span and parse_instant(ends) < parse_instant(starts):
        # A period that ended before it began is an error.
        errors.append("time.valid_to is before time.valid_from")


def _check_relations(relations: object, errors: list[str]) -> None:
    """Report errors in the relations."""
    if not isinstance(relations, list) or len(relations) > MAX_RELATIONS:
        errors.append(f"relations must be an array of at most {MAX_RELATIONS} objects")
        return
    for index, relation in enumerate(relations):
        _check_names(relation, ("type", "target"), (), f"relations.{index}", errors)


def _check_integrity(integrity: object, errors: list[str]) -> None:
    """Report errors in the form of the integrity block; it is not verified here."""
    if not isinstance(integrity, dict):
        errors.append("integrity must be an object")
        return
    for field, prefix in (
        ("content_hash", "blake3:"),
        ("signature", "ed25519:"),
        ("signer", "did:"),
    ):
        text = integrity.get(field)
        if not is_name(text) or not str(text).startswith(prefix):
            errors.append(f"integrity.{field} must be a string that starts with {prefix}")


def _check_links(field: str) -> Callable[[object, list[str]], None]:
    """Return a check for a list of record ids."""

    def check_links(links: object, errors: list[str]) -> None:
        if (
            not isinstance(links, list)
            or len(links) > MAX_SUPERSEDES
            or not all(map(is_name, links))
        ):
            errors.append(f"{field} must be an array of at most {MAX_SUPERSEDES} record ids")

    return check_links


# In the reference implementation's order of reporting; then the fields that it does not check.
_CHECKS: Final[dict[str, Callable[[object, list[str]], None]]] = {
    "lifecycle": _check_lifecycle,
    "provenance": _check_provenance,
    "consent": _check_consent,
    "time": _check_time,
    "supersedes": _check_links("supersedes"),
    "superseded_by": _check_links("superseded_by"),
    "relations": _check_relations,
    "integrity": _check_integrity,
}


def _check_names(
    value: object,
    required: tuple[str, ...],
    optional: tuple[str, ...],
    path: str,
    errors: list[str],
) -> None:
    """Report errors in an object whose fields are all names."""
    if not isinstance(value, dict):
        errors.append(f"{path} must be an object")
        return
    errors.extend(f"{path}.{field} is required" for field in required if field not in value)
    errors.extend(
        f"{path}.{field} {NAME_EXPECTED}"
        for field in (*required, *optional)
        if field in value and not is_name(value[field])
    )


def _check_size(value: Mapping[str, object], errors: list[str]) -> None:
    """Report an error if the record has no canonical form or is too large."""
    # Section 6.1: a value without canonical form can be neither hashed nor signed.
    try:
        size = len(json_text.canonical(value))
    except InvalidInput as error:
        errors.append(error.message)
        return
    if size > MAX_RECORD_BYTES:
        errors.append(f"a record must be at most {MAX_RECORD_BYTES} bytes")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_parsable(value: object, parser: Callable[[str], object]) -> bool:
    """Return True if the value is a string that the parser accepts."""
    if not isinstance(value, str):
        return False
    try:
        parser(value)
    except ValueError:
        return False
    return True
