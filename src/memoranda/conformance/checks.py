"""Checks of any server: what the standards' authors published as probes, vectors and scenarios, in our own words.

`run_checks` performs them in order and yields a result for each. A check is one function: it sends requests through a
`Session`. It raises `Failed` if an answer breaks the sentence of the standard that the check names, `NotOffered` if the
server does not have that part, or `NotRun` if an earlier check has failed. What one check wrote, later checks of the
same standard use.

Every check writes under a project, namespace or ref of its own, and forgets what it wrote where the standard can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from memoranda.conformance import openwop_checks
from memoranda.conformance.session import (
    Check,
    CheckResult,
    Failed,
    NotOffered,
    NotRun,
    Send,
    Session,
    State,
    require,
)
from memoranda.errors import MemorandaError
from memoranda.standards.ump import signature

# The DID in the probes that the authors of UMP published.
PROBE_OWNER: Final = "did:key:zConformanceProbe"
# OMS, section 21.1: the published grain and its address.
VECTOR_ADDRESS: Final = "3288d0d41cf49a1d428e404f0b6a6fe60388be9536937557f6139b813d53a520"
VECTOR_BLOB: Final = bytes.fromhex(
    "010001a4d26968baa089a461646964d9386469643a6b65793a7a364d6b68615867425a44766f74446b4c353235376661"
    "697a74694769433251744b4c4770626e6e4547746132646f4ba163cb3feccccccccccccda26361cf0000019bc1190100"
    "a26e73a6736861726564a16fa96461726b206d6f6465a172a770726566657273a173a475736572a27374ad757365725f"
    "6578706c69636974a174a466616374"
)
# Characters of a reason in a result.
_REASON_CHARS: Final = 300


def run_checks(
    send: Send, *, owner: str = PROBE_OWNER, standards: Iterable[str] = ()
) -> Iterator[CheckResult]:
    """Perform the checks of these standards, or of all, and yield their results."""
    names = frozenset(standards) or frozenset(check.standard for check in CHECKS)
    for name, checks in groupby(CHECKS, key=attrgetter("standard")):
        if name in names:
            session = Session(send=send, owner=owner)
            for check in checks:
                yield _perform(check, session)


def find_owner(send: Send) -> str:
    """Return the owner of the credential, if the server tells it as Memoranda does; else the owner of the probes."""
    reply = send("GET", "/ump/stats")
    is_told = reply.status == 200 and isinstance(reply.document, dict)
    return str(reply.document.get("owner", PROBE_OWNER)) if is_told else PROBE_OWNER


def _perform(check: Check, session: Session) -> CheckResult:
    """Perform one check."""
    state: State = "passed"
    reason = ""
    try:
        check.run(session)
    except NotOffered as error:
        state, reason = "not offered", str(error)
    except NotRun as error:
        state, reason = "not run", str(error)
    except Failed as error:
        state, reason = "failed", str(error)
    except (LookupError, TypeError, AttributeError, ValueError, MemorandaError) as error:
        # The answer has another form than the standard's.
        state, reason = "failed", f"the answer has another form: {type(error).__name__}: {error}"
    return CheckResult(
        standard=check.standard,
        section=check.section,
        requirement=check.requirement,
        title=check.title,
        state=state,
        reason=reason[:_REASON_CHARS],
    )


# --- UMP -----------------------------------------------------------------------------------------------------


def _ump_scope(session: Session) -> dict[str, str]:
    return {"owner": session.owner, "project": session.name, "visibility": "private"}


def _ump_draft(session: Session, text: str, kind: str = "procedural") -> dict[str, object]:
    actor = {"actor": session.owner, "actor_kind": "user", "method": "user_correction"}
    return {"kind": kind, "body": {"text": text}, "scope": _ump_scope(session), "provenance": actor}


def ump_capabilities(session: Session) -> None:
    """Check the handshake."""
    document = session.expect("GET", "/ump/capabilities")
    require(document["ump"] in ("0.1", "1.0"), f"ump is {document['ump']!r}")
    require(len(document["kinds"]) == 5, "there are not five kinds")


def ump_remember(session: Session) -> None:
    """Check that a memory is written."""
    answer = session.expect(
        "POST", "/ump/remember", _ump_draft(session, "run the gate before handoff")
    )
    require(answer["result"] == "created", f"result is {answer['result']!r}")
    require(str(answer["id"]).startswith("urn:ump:"), f"id is {answer['id']!r}")
    session.values["id"] = answer["id"]


def ump_get(session: Session) -> None:
    """Check that the memory is read."""
    record = session.expect("GET", f"/ump/memory/{session.use('id')}")["record"]
    require(record["body"]["text"] == "run the gate before handoff", "the text differs")
    session.values["record"] = record


def ump_recall(session: Session) -> None:
    """Check that the memory is found, with the signals of its score."""
    query = {"query": "gate handoff", "scope": {"owner": session.owner, "project": session.name}}
    results = session.expect("POST", "/ump/recall", query)["results"]
    require(session.use("id") in [result["record"]["id"] for result in results], "it is not found")
    require(isinstance(results[0]["signals"], dict), "a result has no signals")


def ump_merge(session: Session) -> None:
    """Check that the server reports whether it merged."""
    session.use("id")
    answer = session.expect(
        "POST", "/ump/remember", _ump_draft(session, "run the gate before handoff")
    )
    require(answer["result"] in ("created", "merged"), f"result is {answer['result']!r}")


def ump_revise(session: Session) -> None:
    """Check that a revision names what it replaces."""
    patch = {"body": {"text": "use the new gate"}}
    answer = session.expect("POST", "/ump/revise", {"id": session.use("id"), "patch": patch})
    require(session.values["id"] in answer["supersedes"], "supersedes does not name the memory")
    session.values["successor"] = answer["id"]


def ump_bitemporal(session: Session) -> None:
    """Check that the replaced version is closed and linked."""
    prior = session.expect("GET", f"/ump/memory/{session.use('id')}")["record"]
    require(prior["time"]["valid_to"] is not None, "valid_to is still null")
    require(session.use("successor") in prior["superseded_by"], "superseded_by has no successor")


def ump_forget(session: Session) -> None:
    """Check that a forgotten memory is tombstoned, and no longer recalled."""
    answer = session.expect(
        "POST", "/ump/forget", {"id": session.use("successor"), "reason": "conformance"}
    )
    require(answer["result"] in ("tombstoned", "erased"), f"result is {answer['result']!r}")
    query = {"query": "new gate", "scope": {"owner": session.owner, "project": session.name}}
    results = session.expect("POST", "/ump/recall", query)["results"]
    ids = [result["record"]["id"] for result in results]
    require(session.values["successor"] not in ids, "it is still recalled")


def ump_invalid(session: Session) -> None:
    """Check that a record without a body is refused with its code."""
    refusal = session.expect(
        "POST", "/ump/remember", {"kind": "semantic", "scope": _ump_scope(session)}, status=400
    )
    require(refusal["error"]["code"] == "invalid_record", f"code is {refusal['error']['code']!r}")


def ump_not_found(session: Session) -> None:
    """Check the code for an unknown id."""
    session.use("id")
    refusal = session.expect("GET", f"/ump/memory/urn:ump:{'a' * 26}", status=404)
    require(refusal["error"]["code"] == "not_found", f"code is {refusal['error']['code']!r}")


def ump_discovery(session: Session) -> None:
    """Check the discovery document."""
    document = session.expect("GET", "/.well-known/ump.json")
    require(document["ump"] and document["conformance"], "ump or conformance is missing")
    require(document.get("exports") or document.get("endpoint"), "it points at nothing")


def ump_signed(session: Session) -> None:
    """Check that the server signs on write."""
    record = session.use("record")
    require(record.get("integrity"), "the record has no integrity block")
    require(signature.verify(record), "the signature does not verify")


def ump_feedback(session: Session) -> None:
    """Check that an outcome is accepted."""
    report = {"id": session.use("id"), "outcome": "followed", "session": session.name}
    require(session.expect("POST", "/ump/feedback", report)["ok"] is True, "ok is not true")


def ump_unauthorized(session: Session) -> None:
    """Check that a recall needs a credential."""
    query = {"query": "gate", "scope": {"owner": session.owner}}
    reply = session.send("POST", "/ump/recall", query, is_anonymous=True)
    if reply.status == 404:
        raise NotOffered("POST /ump/recall: HTTP 404")
    require(reply.status == 401, f"HTTP {reply.status}, not 401")
    code = reply.document["error"]["code"]
    require(code == "unauthorized", f"code is {code!r}")


# --- OAMS ----------------------------------------------------------------------------------------------------

_OAMS: Final = "/v1/oams"


def _oams_namespace(session: Session) -> str:
    return f"user-x123ab:{session.name}"


def _oams_path(session: Session, key: str = "") -> str:
    path = f"{_OAMS}/memories/{_oams_namespace(session)}"
    return f"{path}/{key}" if key else path


def _oams_refusal(session: Session, method: str, path: str, body: object, code: int) -> None:
    """Check that a request is refused with a reserved code."""
    reply = session.send(method, path, body)
    answer_code = reply.document["error"]["code"]
    require(answer_code == code, f"{method} {path}: code {answer_code}, not {code}")


def oams_store(session: Session) -> None:
    """Check that STORE returns the memory with both times."""
    body = {
        "key": "tea",
        "namespace": _oams_namespace(session),
        "value": "green, no sugar",
        "tags": ["drinks"],
    }
    memory = session.expect("PUT", _oams_path(session, "tea"), body, status=(200, 201))
    require(memory["value"] == "green, no sugar", "the value differs")
    require(memory["created_at"] and memory["updated_at"], "a time is missing")
    session.values["id"] = memory


def oams_idempotent(session: Session) -> None:
    """Check that a repeated STORE does not make a second memory."""
    session.expect("PUT", _oams_path(session, "tea"), session.use("id"), status=(200, 201))
    memories = _oams_listed(session)
    require(len(memories) == 1, f"there are {len(memories)} memories")


def _oams_listed(session: Session) -> list[dict[str, Any]]:
    document = session.expect("GET", _oams_path(session))
    return list(document["memories"] if isinstance(document, dict) else document)


def oams_recall(session: Session) -> None:
    """Check that RECALL returns an ordered array with the memory."""
    session.use("id")
    query = {"namespace": _oams_namespace(session), "query": "sugar", "k": 8}
    memories = session.expect("POST", f"{_OAMS}/recall", query)
    require(isinstance(memories, list), "the answer is not an array")
    require("tea" in [memory["key"] for memory in memories], "it is not found")


def oams_batch(session: Session) -> None:
    """Check that a batch with one invalid memory writes nothing."""
    session.use("id")
    name = _oams_namespace(session)
    bad = [{"key": "a", "namespace": name, "value": "x"}, {"key": "b", "namespace": name}]
    _oams_refusal(session, "POST", f"{_OAMS}/memories/batch", {"memories": bad}, -32003)
    require("a" not in [memory["key"] for memory in _oams_listed(session)], "half of it was stored")
    good = [{"key": key, "namespace": name, "value": key} for key in ("a", "b")]
    session.expect("POST", f"{_OAMS}/memories/batch", {"memories": good}, status=(200, 201))
    keys = {memory["key"] for memory in _oams_listed(session)}
    require({"a", "b"} <= keys, "a memory of the batch is missing")


def oams_list(session: Session) -> None:
    """Check that LIST is sorted by `updated_at`, descending."""
    session.use("id")
    times = [memory["updated_at"] for memory in _oams_listed(session)]
    require(times == sorted(times, reverse=True), "it is not sorted by updated_at")


def oams_source(session: Session) -> None:
    """Check that `source_id` and unknown fields are preserved."""
    session.use("id")
    body = {
        "key": "s",
        "namespace": _oams_namespace(session),
        "value": "v",
        "source_id": "imap:msgid:<a@b>",
    }
    memory = session.expect("PUT", _oams_path(session, "s"), body, status=(200, 201))
    require(memory["source_id"] == "imap:msgid:<a@b>", "source_id differs")


def oams_codes(session: Session) -> None:
    """Check three of the reserved codes."""
    session.use("id")
    empty = {"namespace": f"user-x123ab:{session.name}-empty", "query": "x"}
    _oams_refusal(session, "POST", f"{_OAMS}/recall", empty, -32001)
    _oams_refusal(session, "GET", _oams_path(session, "unknown"), None, -32002)
    _oams_refusal(session, "PUT", _oams_path(session, "bad"), {"value": 7}, -32003)


def oams_owners(session: Session) -> None:
    """Check that a query across owners is refused."""
    session.use("id")
    names = [_oams_namespace(session), f"user-y456cd:{session.name}"]
    _oams_refusal(session, "POST", f"{_OAMS}/recall", {"query": "x", "namespaces": names}, -32005)


def oams_forget(session: Session) -> None:
    """Check that FORGET answers 204, and that nothing returns the memory."""
    session.use("id")
    for key in ("tea", "a", "b", "s"):
        session.expect("DELETE", _oams_path(session, key), status=(204, 404))
    _oams_refusal(session, "GET", _oams_path(session, "tea"), None, -32002)
    query = {"namespace": _oams_namespace(session), "query": "sugar"}
    reply = session.send("POST", f"{_OAMS}/recall", query)
    require(reply.document == [] or reply.status == 404, "RECALL still returns it")


# --- OMS -----------------------------------------------------------------------------------------------------


def oms_vector(session: Session) -> None:
    """Check that the published grain gets its published address."""
    answer = session.expect("POST", "/oms/grains", VECTOR_BLOB, status=(200, 201))
    address = str(answer.get("address") or answer.get("content_address")).removeprefix("sha256:")
    require(address == VECTOR_ADDRESS, f"the address is {address}")
    session.values["id"] = address


def oms_bytes(session: Session) -> None:
    """Check that a grain is returned with the bytes that were written."""
    address = session.use("id")
    reply = session.send("GET", f"/oms/grains/{address}")
    require(reply.status == 200, f"HTTP {reply.status}")
    fields = reply.document.get("grain", reply.document)
    require(fields["object"] == "dark mode", "the object differs")


def cal_read(session: Session) -> None:
    """Check that a query finds the published grain."""
    session.use("id")
    query = {"query": 'CAL/1 RECALL beliefs ABOUT "user" WHERE relation = "prefers" LIMIT 5'}
    answer = session.expect("POST", "/cal", query)
    addresses = [result["content_address"].removeprefix("sha256:") for result in answer["results"]]
    require(VECTOR_ADDRESS in addresses, "it is not found")


def cal_safe(session: Session) -> None:
    """Check that the language cannot destroy: there are no words for it."""
    session.use("id")
    for word in ("DELETE", "DROP", "FORGET", "ERASE"):
        reply = session.send("POST", "/cal", {"query": f'CAL/1 {word} beliefs ABOUT "user"'})
        require(400 <= reply.status < 500, f"{word}: HTTP {reply.status}")


def oms_erase(session: Session) -> None:
    """Remove the published grain again; a store with a policy may refuse."""
    reply = session.send("DELETE", f"/oms/grains/{session.use('id')}", {"reason": "conformance"})
    require(reply.status < 500, f"HTTP {reply.status}")


CHECKS: Final = (
    Check(
        "ump",
        "3.1",
        "UMP-3.1-capabilities",
        "the handshake has version and kinds",
        ump_capabilities,
    ),
    Check("ump", "3.3", "UMP-3.3-reports", "a memory is written", ump_remember),
    Check("ump", "3.4", "UMP-3.4-get", "a memory is read", ump_get),
    Check("ump", "3.2", "UMP-3.2-signals", "a memory is found, with signals", ump_recall),
    Check("ump", "2.8", "UMP-2.8-integrity", "records are signed", ump_signed),
    Check("ump", "3.3", "UMP-3.3-reports", "a merge is reported", ump_merge),
    Check("ump", "3.8", "UMP-3.8-feedback", "an outcome is accepted", ump_feedback),
    Check("ump", "3.5", "UMP-3.5-revise", "a revision names what it replaces", ump_revise),
    Check("ump", "2.3", "UMP-2.3-two-timelines", "the replaced version is closed", ump_bitemporal),
    Check("ump", "3.6", "UMP-3.6-tombstone", "a forgotten memory is not recalled", ump_forget),
    Check("ump", "3.7", "UMP-3-error-envelope", "an invalid record has its code", ump_invalid),
    Check("ump", "3.7", "UMP-3-error-envelope", "an unknown id has its code", ump_not_found),
    Check("ump", "4.3", "UMP-4.3-well-known", "discovery points at something", ump_discovery),
    Check("ump", "4.2", "UMP-4.2-bearer", "a recall needs a credential", ump_unauthorized),
    Check("oams", "3", "OAMS-3-store-returns", "STORE returns the memory", oams_store),
    Check(
        "oams", "3", "OAMS-3-store-idempotent", "a repeated STORE is one memory", oams_idempotent
    ),
    Check("oams", "3", "OAMS-3-recall-order", "RECALL finds the memory", oams_recall),
    Check("oams", "3", "OAMS-3-batch-atomic", "a batch is all or nothing", oams_batch),
    Check("oams", "3", "OAMS-3-list-pages", "LIST is sorted by updated_at", oams_list),
    Check("oams", "5", "OAMS-5-source-kept", "source_id is preserved", oams_source),
    Check("oams", "3", "OAMS-3-errors-occur", "the reserved codes occur", oams_codes),
    Check("oams", "4", "OAMS-4-cross-owner-refused", "owners are not mixed", oams_owners),
    Check("oams", "3", "OAMS-3-forget-gone", "FORGET removes the memory", oams_forget),
    *openwop_checks.CHECKS,
    Check(
        "oms", "21.1", "OMS-28.4-put-idempotent", "the published grain has its address", oms_vector
    ),
    Check("oms", "28.4", "OMS-28.4-list", "a grain is read", oms_bytes),
    Check("oms", "CAL 8.1", "CAL-8.1-complete", "a query finds the grain", cal_read),
    Check("oms", "CAL 1", "CAL-2.4-no-destructive-token", "the language cannot destroy", cal_safe),
    Check("oms", "28.4", "OMS-28.4-delete", "the grain is removed again", oms_erase),
)


def summarize(results: Iterable[CheckResult]) -> dict[State, int]:
    """Return the number of results per state."""
    counts: dict[State, int] = {"passed": 0, "failed": 0, "not offered": 0, "not run": 0}
    for result in results:
        counts[result.state] = counts.get(result.state, 0) + 1
    return counts
