"""The UMP record: its closed sets, its limits, what is wrong with one, and its defaults (sections 2 and 3.3).

A record is a plain dictionary (typed in `shapes`), kept as it was sent: whatever would change its meaning changes its
hash. Fields that we do not know are refused, as the schema of the standard has it: a misspelt `consent` would be no
consent at all. What anybody may add stands in `body.structured`.
`problems` finds everything wrong at once, in the order in which the reference reports it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast, get_args

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput
from memoranda.model.instant import format_instant, parse_duration_ms, parse_instant
from memoranda.standards.ump.paths import leads_nowhere, parse_path
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

# Who acted: a DID and an actor kind.
Actor = tuple[str, ActorKind]

VERSIONS: Final[tuple[str, ...]] = get_args(Version)
KINDS: Final[tuple[str, ...]] = get_args(Kind)
VISIBILITIES: Final[tuple[str, ...]] = get_args(Visibility)
STATUSES: Final[tuple[str, ...]] = get_args(Status)
ACTOR_KINDS: Final[tuple[str, ...]] = get_args(ActorKind)
SCOPE_FIELDS: Final = ("owner", "user", "project", "agent", "session", "visibility")

DEFAULT_VISIBILITY: Final = "private"

# One record, canonical, in bytes: what fits in one request.
MAX_RECORD_BYTES: Final = json_text.MAX_BYTES
# A memory is read whole into a model's context; a quarter MiB is already a book chapter.
MAX_TEXT_BYTES: Final = 262_144
MAX_RELATIONS: Final = 256
MAX_EVIDENCE: Final = 256
MAX_REDACT_PATHS: Final = 64
# The whole chain of predecessors is listed in each successor.
MAX_SUPERSEDES: Final = 10_000
# Identifiers are 26 characters when random and 52 when derived; foreign ones may be longer.
MAX_ID_CHARS: Final = 256

ID_PATTERN: Final = re.compile(r"urn:ump:[a-z2-7]+", re.ASCII)
# C0 controls and DEL would break lines, frames and C strings.
CONTROL_PATTERN: Final = re.compile(r"[\x00-\x1f\x7f]")

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


def check(value: object, *, version: Version, require_provenance: bool = True) -> Draft:
    """Return the draft if it is one; raise InvalidInput that lists everything wrong."""
    _raise_if(problems(value, version=version, require_provenance=require_provenance), value)
    return cast("Draft", value)


def check_complete(value: object, *, version: Version, require_provenance: bool = False) -> Record:
    """Return the full record (as in files and signed imports) if it is one, else raise InvalidInput.

    Provenance is not required by default: files of level L0 and L1 have none.
    """
    found = problems(value, version=version, require_provenance=require_provenance)
    if isinstance(value, dict):
        # Section 2: ump, id, kind, body, scope and time are REQUIRED.
        found += [f"{field} is required" for field in ("ump", "id", "time") if field not in value]
        time = value.get("time")
        if isinstance(time, dict) and "created" not in time:
            found.append("time.created is required")
    _raise_if(found, value)
    return cast("Record", value)


def _raise_if(found: list[str], value: object) -> None:
    if found and isinstance(value, dict) and value.get("ump") == "1.0":
        found = [*found, "records of UMP 1.0 are taken with MEMORANDA_UMP_VERSION=1.0"]
    if found:
        raise InvalidInput("; ".join(found))


def complete(draft: Draft, *, now: int, version: Version) -> Record:
    """Fill in what a checked draft leaves out (section 3.3); the id stays empty when it has none."""
    moment = format_instant(now)
    scope: Scope = {**draft["scope"]}
    # The specification's own example omits visibility; the safe reading is the narrowest one.
    scope.setdefault("visibility", DEFAULT_VISIBILITY)
    time: Time = draft.get("time", {})
    lifecycle: Lifecycle = {"status": "active", "confidence": DEFAULT_CONFIDENCE, **draft.get("lifecycle", {})}
    record: Record = {
        **draft,
        # Section 8 (1.0): a server MUST emit the version it advertises.
        "ump": version,
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
    return ordered(record)


def ordered(record: Record) -> Record:
    """A copy in the specification's field order; unknown fields keep their order at the end."""
    return cast("Record", in_order(record))


def in_order(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same for what is no record yet."""
    known = {key: fields[key] for key in KEY_ORDER if key in fields}
    return {**known, **fields}


def unsigned(record: Record) -> Record:
    """A copy without its integrity block: what is changed must be signed again."""
    copy = record.copy()
    copy.pop("integrity", None)
    return copy


def problems(value: object, *, version: Version, require_provenance: bool = True) -> list[str]:
    """Everything that keeps a JSON value from being a draft record; empty when nothing does."""
    if not isinstance(value, dict):
        return ["a record must be an object"]
    found: list[str] = []
    _check_version(value, version, found)
    _check_body(value.get("body"), found)
    if value.get("kind") not in KINDS:
        # Section 2.1: a consumer MUST accept all five kinds.
        found.append(f"kind must be one of {'|'.join(KINDS)}")
    _check_scope(value.get("scope"), found)
    if "id" in value and not is_id(value["id"]):
        found.append("id must match urn:ump:<base32>")
    for field, checker in _OPTIONAL.items():
        if field in value:
            checker(value[field], found)
    if require_provenance and "provenance" not in value:
        # Section 2.6: provenance is REQUIRED at L2+.
        found.append("provenance is required at L2+")
    _check_known(value, "", found)
    if not found:
        _check_whole(value, found)
    return found


def patch_problems(patch: Mapping[str, object]) -> list[str]:
    """What is wrong with the fields of a revision (section 3.5)."""
    found: list[str] = []
    if "body" in patch:
        _check_body(patch["body"], found)
    for field in ("lifecycle", "relations", "time"):
        if field in patch:
            _OPTIONAL[field](patch[field], found)
    _check_known(patch, "", found)
    if not found:
        _check_whole(patch, found)
    return found


def is_id(value: object) -> bool:
    """Whether the value is a record identifier (section 6.2)."""
    return isinstance(value, str) and len(value) <= MAX_ID_CHARS and ID_PATTERN.fullmatch(value) is not None


def is_name(value: object) -> bool:
    """Whether the value is a non-empty one-line string of bearable length."""
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARS and CONTROL_PATTERN.search(value) is None


def _check_known(value: Mapping[str, Any], path: str, found: list[str]) -> None:
    """The schema closes every object but `body.structured`."""
    known = CLOSED[path] if path else KEY_ORDER
    for name, inner in value.items():
        where = f"{path}.{name}" if path else name
        if name not in known:
            found.append(f"{where[:60]!a} is no field of a record; there are {', '.join(known)}")
        elif where in CLOSED:
            for each in inner if isinstance(inner, list) else (inner,):
                if isinstance(each, dict):
                    _check_known(each, where, found)


def _check_version(value: Mapping[str, object], version: str, found: list[str]) -> None:
    # Section 8 (1.0): a 1.0 peer MAY import 0.1; 0.1 knows only itself.
    accepted = VERSIONS if version == "1.0" else (version,)
    if "ump" in value and value["ump"] not in accepted:
        found.append(f"ump version must be {' or '.join(accepted)}")


def _check_body(body: object, found: list[str]) -> None:
    text = body.get("text") if isinstance(body, dict) else None
    if not isinstance(text, str) or not text:
        found.append("body.text is required")
    elif len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
        found.append(f"body.text must be at most {MAX_TEXT_BYTES} bytes")
    # The reference lets null through, so null is kept as it came.
    if isinstance(body, dict) and not isinstance(body.get("structured"), dict | None):
        found.append("body.structured must be an object")


def _check_scope(scope: object, found: list[str]) -> None:
    if scope is not None and not isinstance(scope, dict):
        found.append("scope must be an object")
        return
    fields = scope or {}
    if not fields.get("owner"):
        # Section 2.2: owner is REQUIRED.
        found.append("scope.owner (DID) is required")
    if "visibility" in fields and fields["visibility"] not in VISIBILITIES:
        found.append(f"scope.visibility must be {'|'.join(VISIBILITIES)}")
    found.extend(
        f"scope.{field} {NAME_EXPECTED}"
        for field in SCOPE_FIELDS[:-1]
        if field in fields and not (is_name(fields[field]) or (field == "owner" and not fields[field]))
    )


def _check_lifecycle(lifecycle: object, found: list[str]) -> None:
    if not isinstance(lifecycle, dict):
        found.append("lifecycle must be an object")
        return
    if "status" in lifecycle and lifecycle["status"] not in STATUSES:
        found.append(f"lifecycle.status must be {'|'.join(STATUSES)}")
    found.extend(
        f"lifecycle.{field} must be a number in [0,1]"
        for field in ("confidence", "salience")
        if field in lifecycle and not (_is_number(lifecycle[field]) and 0 <= lifecycle[field] <= 1)
    )
    if "decay" in lifecycle and not is_name(lifecycle["decay"]):
        found.append(f"lifecycle.decay {NAME_EXPECTED}")


def _check_provenance(provenance: object, found: list[str]) -> None:
    if not isinstance(provenance, dict):
        found.append("provenance must be an object")
        return
    if not provenance.get("actor"):
        found.append("provenance.actor is required when provenance present")
    elif not is_name(provenance["actor"]):
        found.append(f"provenance.actor {NAME_EXPECTED}")
    if provenance.get("actor_kind") not in ACTOR_KINDS:
        found.append(f"provenance.actor_kind must be {'|'.join(ACTOR_KINDS)}")
    if not provenance.get("method"):
        found.append("provenance.method is required when provenance present")
    elif not is_name(provenance["method"]):
        found.append(f"provenance.method {NAME_EXPECTED}")
    if "source" in provenance:
        _check_names(provenance["source"], (), ("ref", "provider"), "provenance.source", found)
    if "evidence" in provenance:
        _check_evidence(provenance["evidence"], found)


def _check_evidence(evidence: object, found: list[str]) -> None:
    if not isinstance(evidence, list) or len(evidence) > MAX_EVIDENCE:
        found.append(f"provenance.evidence must be an array of at most {MAX_EVIDENCE} objects")
        return
    for index, item in enumerate(evidence):
        path = f"provenance.evidence.{index}"
        if isinstance(item, dict) and "weight" in item and not _is_number(item["weight"]):
            found.append(f"{path}.weight must be a number")
        named = {key: entry for key, entry in item.items() if key != "weight"} if isinstance(item, dict) else item
        _check_names(named, ("ref",), (), path, found)


def _check_consent(consent: object, found: list[str]) -> None:
    if not isinstance(consent, dict):
        found.append("consent must be an object")
        return
    if "retention" in consent and not _parses(consent["retention"], parse_duration_ms):
        found.append("consent.retention must be an ISO-8601 duration (starts with P)")
    if "exportable" in consent and not isinstance(consent["exportable"], bool):
        found.append("consent.exportable must be a boolean")
    if "redact" in consent:
        paths = consent["redact"]
        if not isinstance(paths, list) or len(paths) > MAX_REDACT_PATHS:
            found.append(f"consent.redact must be an array of at most {MAX_REDACT_PATHS} paths")
        else:
            found.extend(
                f"consent.redact.{index} must be a path into the record: body.structured.token, JSONPath (RFC 9535, "
                "without filters) or JSON Pointer"
                for index, path in enumerate(paths)
                if not (is_name(path) and (read := parse_path(path)) is not None and not leads_nowhere(read))
            )


def _check_time(time: object, found: list[str]) -> None:
    if not isinstance(time, dict):
        found.append("time must be an object")
        return
    for field in ("created", "observed", "valid_from", "valid_to"):
        if field not in time or (field == "valid_to" and time[field] is None):
            continue
        if not _parses(time[field], parse_instant):
            found.append(f"time.{field} must be an RFC 3339 date-time with an offset")
    starts, ends = time.get("valid_from"), time.get("valid_to")
    is_span = _parses(starts, parse_instant) and _parses(ends, parse_instant)
    if is_span and parse_instant(ends) < parse_instant(starts):
        # What ended before it began was never true.
        found.append("time.valid_to is before time.valid_from")


def _check_relations(relations: object, found: list[str]) -> None:
    if not isinstance(relations, list) or len(relations) > MAX_RELATIONS:
        found.append(f"relations must be an array of at most {MAX_RELATIONS} objects")
        return
    for index, relation in enumerate(relations):
        _check_names(relation, ("type", "target"), (), f"relations.{index}", found)


def _check_integrity(integrity: object, found: list[str]) -> None:
    if not isinstance(integrity, dict):
        found.append("integrity must be an object")
        return
    for field, prefix in (("content_hash", "blake3:"), ("signature", "ed25519:"), ("signer", "did:")):
        text = integrity.get(field)
        if not is_name(text) or not str(text).startswith(prefix):
            found.append(f"integrity.{field} must be a string that starts with {prefix}")


def _check_links(field: str) -> Callable[[object, list[str]], None]:
    def checker(links: object, found: list[str]) -> None:
        if not isinstance(links, list) or len(links) > MAX_SUPERSEDES or not all(map(is_name, links)):
            found.append(f"{field} must be an array of at most {MAX_SUPERSEDES} record ids")

    return checker


# In the reference's order of reporting, then the fields that the reference does not look at.
_OPTIONAL: Final[dict[str, Callable[[object, list[str]], None]]] = {
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
    value: object, required: tuple[str, ...], optional: tuple[str, ...], path: str, found: list[str]
) -> None:
    """An object whose fields are all names."""
    if not isinstance(value, dict):
        found.append(f"{path} must be an object")
        return
    found.extend(f"{path}.{field} is required" for field in required if field not in value)
    found.extend(
        f"{path}.{field} {NAME_EXPECTED}"
        for field in (*required, *optional)
        if field in value and not is_name(value[field])
    )


def _check_whole(value: Mapping[str, object], found: list[str]) -> None:
    # Section 6.1: what has no canonical form can be neither hashed nor signed.
    try:
        size = len(json_text.canonical(value))
    except InvalidInput as error:
        found.append(error.message)
        return
    if size > MAX_RECORD_BYTES:
        found.append(f"a record must be at most {MAX_RECORD_BYTES} bytes")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parses(value: object, parser: Callable[[str], object]) -> bool:
    if not isinstance(value, str):
        return False
    try:
        parser(value)
    except ValueError:
        return False
    return True
