"""Checks of an openwop host: its memory, its runs and their logs, and the addresses of its webhooks.

Runs are checked with the fixtures that the host names in its discovery document; a host without them is not asked.

A check is a function that takes a Session and raises if the host does something else than the specification says.
Checks send only requests that any host must answer. One that needs an optional part raises NotOffered first, and is
then reported as skipped and not as failed.
"""

from __future__ import annotations

import re
from typing import Any, Final

from memoranda.conformance.session import Check, Failed, NotOffered, Session, require

# version-negotiation.md, Protocol version grammar.
_VERSION: Final = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)", re.ASCII)
_ENDS: Final = ("run.completed", "run.failed", "run.cancelled")
_SHORTEST: Final = "conformance-noop"


def wop_discovery(session: Session) -> None:
    """Check the discovery document."""
    document = session.expect("GET", "/.well-known/openwop")
    versions = [document["protocolVersion"], *document.get("protocolVersions", ())]
    wrong = [version for version in versions if not _VERSION.fullmatch(str(version))]
    require(not wrong, f"{wrong} are no versions")
    advertised = document.get("protocolVersions", versions)
    require(document["protocolVersion"] in advertised, "protocolVersions lacks protocolVersion")
    session.values |= {"document": document, "memory": document.get("memory") or {}}


def _wop_memory(session: Session) -> str:
    """Return the path of the ref. Raises NotOffered for a host without memory."""
    if not session.use("memory").get("supported"):
        raise NotOffered("the host does not declare memory")
    return f"/v1/memory/{session.name}"


def wop_write(session: Session) -> None:
    """Check that an entry has the five fields of MemoryEntry, and no others."""
    draft = {"content": "the customer asks for invoices by mail", "tags": ["subject:acme"]}
    entry = session.expect("POST", _wop_memory(session), draft, status=(200, 201))
    extra = set(entry) - {"id", "content", "tags", "createdAt", "expiresAt"}
    require(not extra, f"unknown fields {sorted(extra)}")
    session.values["id"] = entry["id"]


def wop_list(session: Session) -> None:
    """Check that list returns the entry, and filters by tag."""
    path = f"{_wop_memory(session)}?tag=subject%3Aacme"
    session.use("id")
    entries = _wop_entries(session.expect("GET", path))
    require([entry["id"] for entry in entries] == [session.values["id"]], "the entry is not listed")
    none = _wop_entries(session.expect("GET", f"{_wop_memory(session)}?tag=other"))
    require(none == [], "the tag does not filter")


def _wop_entries(document: Any) -> list[dict[str, Any]]:
    return list(document["entries"] if isinstance(document, dict) else document)


def wop_unknown(session: Session) -> None:
    """Check that an unknown or malformed ref returns no entries (CTI-1)."""
    session.use("id")
    for ref in (f"{session.name}-unknown", "..%2F..%2Fetc", "a%00b", "x" * 5000):
        reply = session.send("GET", f"/v1/memory/{ref}")
        is_empty = reply.status == 200 and not _wop_entries(reply.document)
        require(is_empty or reply.status in (404, 414), f"{ref[:20]!r}: HTTP {reply.status}")


def wop_error(session: Session) -> None:
    """Check the envelope of errors: a code, a message, and no data of entries."""
    session.use("id")
    reply = session.send("POST", _wop_memory(session), {"content": 7})
    require(reply.status == 400, f"HTTP {reply.status}, not 400")
    require(isinstance(reply.document["error"], str), "error is not a code")
    require(isinstance(reply.document["message"], str), "there is no message")


def wop_forget(session: Session) -> None:
    """Check that a forgotten entry is not returned."""
    entry = session.use("id")
    session.expect("DELETE", f"{_wop_memory(session)}/{entry}", status=(200, 204))
    require(_wop_entries(session.expect("GET", _wop_memory(session))) == [], "it is still listed")


def wop_unauthorized(session: Session) -> None:
    """Check that memory needs a credential."""
    reply = session.send("GET", _wop_memory(session), is_anonymous=True)
    require(reply.status == 401, f"HTTP {reply.status}, not 401")
    code = reply.document["error"]
    require(code == "unauthenticated", f"error is {code!r}")


def wop_run(session: Session) -> None:
    """Check that the shortest fixture runs to its end, and that its snapshot tells of its log."""
    if _SHORTEST not in session.use("document").get("fixtures", ()):
        raise NotOffered(f"the host does not name the fixture {_SHORTEST}")
    answer = session.expect("POST", "/v1/runs", {"workflowId": _SHORTEST}, status=201)
    run_id = str(answer["runId"])
    log = session.expect("GET", f"/v1/runs/{run_id}/events/poll?timeout=10")["events"]
    snapshot = session.expect("GET", f"/v1/runs/{run_id}")
    require(snapshot["status"] == "completed", f"status is {snapshot['status']!r}")
    version = snapshot.get("eventLogSchemaVersion")
    require(isinstance(version, int) and version >= 2, f"eventLogSchemaVersion is {version!r}")
    session.values |= {"run": run_id, "log": log}


def wop_log(session: Session) -> None:
    """Check that a log counts from 0, and that one event ends it."""
    log = session.use("log")
    require([event["sequence"] for event in log] == list(range(len(log))), "sequences have gaps")
    ends = [event["type"] for event in log if event["type"] in _ENDS]
    require(ends == [log[-1]["type"]], f"{len(ends)} events end it")
    past = session.expect(
        "GET", f"/v1/runs/{session.use('run')}/events/poll?lastSequence=99999&timeout=0"
    )
    require(past["events"] == [], "there are events after the last one")


def wop_replay(session: Session) -> None:
    """Check that a replay repeats the log, apart from ids."""
    if "replay" not in (session.use("document").get("replay") or {}).get("modes", ()):
        raise NotOffered("the host does not replay")
    source = session.use("run")
    fork = session.expect(
        "POST", f"/v1/runs/{source}:fork", {"mode": "replay", "fromSeq": 0}, status=201
    )
    require(fork["runId"] != source, "the replay has the id of its source")
    log = session.expect("GET", f"/v1/runs/{fork['runId']}/events/poll?timeout=0")["events"]
    facts = [
        [(event["type"], event["payload"]) for event in one] for one in (log, session.use("log"))
    ]
    require(facts[0] == facts[1], "its events differ")
    past = session.send("POST", f"/v1/runs/{source}:fork", {"mode": "replay", "fromSeq": 99_999})
    require(past.status == 422, f"a position past the end: HTTP {past.status}, not 422")


def wop_unknown_run(session: Session) -> None:
    """Check that an unknown run is refused in the envelope, which is closed."""
    session.use("document")
    reply = session.send("GET", f"/v1/runs/{session.name}")
    require(reply.status in (403, 404), f"HTTP {reply.status}, not 404 or 403")
    extra = set(reply.document) - {"error", "message", "details"}
    require(not extra, f"unknown members {sorted(extra)}")


def wop_webhooks(session: Session) -> None:
    """Check that no webhook can be registered for an address inside, or for another tenant."""
    if not (session.use("document").get("webhooks") or {}).get("supported"):
        raise NotOffered("the host does not declare webhooks")
    refused = {
        "an address inside": {"url": "https://127.0.0.1/"},
        "another tenant": {"url": "https://example.com/", "tenantId": session.name},
    }
    for name, fields in refused.items():
        reply = session.send("POST", "/v1/webhooks", {**fields, "events": ["run.completed"]})
        if reply.status == 201:
            session.send("DELETE", f"/v1/webhooks/{reply.document['webhookId']}")
            raise Failed(f"{name} was accepted")
        require(400 <= reply.status < 500, f"{name}: HTTP {reply.status}")


CHECKS: Final = (
    Check("openwop", "capabilities", "WOP-4-root", "discovery names a version", wop_discovery),
    Check("openwop", "MemoryAdapter", "WOP-1.1-entry", "an entry has the five fields", wop_write),
    Check("openwop", "MemoryAdapter", "WOP-1.2-tag", "list filters by tag", wop_list),
    Check("openwop", "CTI-1", "WOP-3-cti-shape", "malformed refs return nothing", wop_unknown),
    Check("openwop", "rest-endpoints", "WOP-1.9-envelope", "errors have the envelope", wop_error),
    Check("openwop", "auth", "WOP-5-auth", "memory needs a credential", wop_unauthorized),
    Check("openwop", "fixtures", "WOP-10-noop", "the shortest fixture runs to its end", wop_run),
    Check("openwop", "run-event", "WOP-1.4-sequence", "one event ends a log without gaps", wop_log),
    Check("openwop", "replay", "WOP-5-fork-stable", "a replay repeats the log", wop_replay),
    Check("openwop", "rest-endpoints", "WOP-6-codes", "unknown runs are refused", wop_unknown_run),
    Check("openwop", "webhooks", "WOP-webhooks-ssrf", "addresses inside are refused", wop_webhooks),
    Check("openwop", "retention", "WOP-2-delete", "a forgotten entry is gone", wop_forget),
)
