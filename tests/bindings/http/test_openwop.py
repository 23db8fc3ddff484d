"""openwop over HTTP: logs as streams, who may do what, what is claimed only when it is so, and no secret on disk.

What any host must do is in tests/conformance/openwop.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.bindings.http.running import (
    ALL,
    OWNER,
    Running,
    draft,
    openwop_error_of,
    running,
)
from tests.waiting import HANG_SECONDS, until

from memoranda.bindings.http.app import all_operations
from memoranda.bindings.http.openwop import OPENWOP
from memoranda.bindings.http.openwop_events import POLL_SECONDS, POLL_SECONDS_LIMIT
from memoranda.bindings.http.operation import Operation
from memoranda.conformance.openwop import SEAMS

JSON_LOG = {"accept": "application/json"}


def begin(client: httpx.Client, **fields: Any) -> str:
    answer = client.post("/v1/host/runs", json={"workflowId": "acme.support", **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["runId"])


def tell(client: httpx.Client, run_id: str, type_: str = "node.completed") -> None:
    assert client.post(f"/v1/host/runs/{run_id}/events", json={"type": type_}).status_code == 201


def finish(client: httpx.Client, run_id: str) -> None:
    assert client.post(f"/v1/host/runs/{run_id}/finish", json={}).status_code == 200


def put(client: httpx.Client, ref: str, content: str, run_id: str | None = None, **fields: Any) -> dict[str, Any]:
    place = "/v1" if run_id is None else f"/v1/host/runs/{run_id}"
    answer = client.post(f"{place}/memory/{quote(ref, safe='')}", json={"content": content, **fields})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def frames(text: str) -> list[tuple[int, str]]:
    """(id, type) of every event in what was streamed."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
        if "data" in fields:
            event = json.loads(fields["data"])
            assert (int(fields["id"]), fields["event"]) == (event["sequence"], event["type"])
            found.append((event["sequence"], event["type"]))
    return found


@pytest.mark.requirement("WOP-5-runs-paging")
def test_runs_are_read_page_by_page_and_none_is_lost(client: httpx.Client) -> None:
    begun = {begin(client) for _ in range(25)}
    found: list[str] = []
    asked: dict[str, Any] = {"limit": 4}
    while True:
        page = client.get("/v1/host/runs", params=asked).json()
        found += [run["runId"] for run in page["runs"]]
        if "nextCursor" not in page:
            break
        asked["cursor"] = page["nextCursor"]
    assert len(found) == len(set(found))
    assert begun <= set(found)
    for wrong in ({"cursor": "x"}, {"cursor": "1.r", "before": "2026-01-01T00:00:00Z"}, {"cursor": "9" * 16 + ".r"}):
        assert openwop_error_of(client.get("/v1/host/runs", params=wrong)) == (400, "validation_error")


@pytest.mark.requirement("WOP-3-workspace-snapshot")
def test_a_run_reads_and_writes_the_workspace_over_http(client: httpx.Client) -> None:
    client.put("/v1/host/workspace/files/run.md", json={"content": "before"})
    run_id = begin(client)
    inside = f"/v1/host/runs/{run_id}/workspace/files"
    written = client.put(f"{inside}/run.md", json={"content": "in the run"}, headers={"if-match": '"v1"'})
    assert (written.status_code, written.json()["version"]) == (200, 2)
    assert client.get(f"{inside}/run.md").json()["content"] == "before"
    assert [file["version"] for file in client.get(inside, params={"prefix": "run"}).json()["files"]] == [1]
    assert client.get("/v1/host/workspace/files/run.md").json()["content"] == "in the run"
    log = client.get(f"/v1/runs/{run_id}/events", headers=JSON_LOG).json()["events"]
    assert [event["payload"] for event in log[1:]] == [{"path": "run.md", "version": 2}]
    assert client.delete(f"{inside}/run.md").status_code == 204
    assert client.get(f"{inside}/run.md").status_code == 404
    assert client.get("/v1/host/runs/nothing/workspace/files").status_code == 404


@pytest.mark.requirement("WOP-5-openapi")
def test_the_openapi_document_is_where_openwop_says_for_anybody(server: Running) -> None:
    with server.client() as stranger:
        answer = stranger.get("/v1/openapi.json")
        assert answer.status_code == 200
        assert answer.content == stranger.get("/openapi.json").content
        assert "/v1/runs" in answer.json()["paths"]


# --- the log of a run ------------------------------------------------------------------------------------


def test_the_stream_of_a_finished_run_is_its_whole_log_and_ends(client: httpx.Client) -> None:
    run_id = begin(client)
    tell(client, run_id)
    finish(client, run_id)
    answer = client.get(f"/v1/runs/{run_id}/events", headers={"accept": "text/event-stream"})
    assert answer.headers["content-type"] == "text/event-stream"
    assert frames(answer.text) == [(0, "run.started"), (1, "node.completed"), (2, "run.completed")]


@pytest.mark.requirement("WOP-5-stream-modes")
def test_a_stream_shows_what_its_mode_says_and_other_modes_are_refused(client: httpx.Client) -> None:
    run_id = begin(client)
    for type_ in ("node.started", "acme.thought", "node.completed", "variable.changed"):
        tell(client, run_id, type_)
    put(client, "agents/modes", "something", run_id)
    finish(client, run_id)
    shown = [(0, "run.started"), (3, "node.completed"), (5, "memory.written"), (6, "run.completed")]
    log = f"/v1/runs/{run_id}/events"
    for params in ({}, {"streamMode": "updates"}):
        assert frames(client.get(log, params=params).text) == shown
        events = client.get(log, params=params, headers=JSON_LOG).json()["events"]
        assert [(event["sequence"], event["type"]) for event in events] == shown
    assert frames(client.get(log, headers={"last-event-id": "3"}).text) == shown[2:]
    assert [number for number, _ in frames(client.get(log, params={"streamMode": "debug"}).text)] == list(range(7))
    for mode in ("values,debug", "nonsense", "DEBUG", "updates,"):
        for headers in (JSON_LOG, {"accept": "text/event-stream"}):
            refused = client.get(log, params={"streamMode": mode}, headers=headers)
            assert openwop_error_of(refused) == (400, "unsupported_stream_mode")
            assert refused.json()["details"] == {"supported": ["values", "updates", "messages", "debug"]}
    # A poll has no mode: it is the log.
    polled = client.get(f"{log}/poll", params={"timeout": 0}).json()["events"]
    assert [event["sequence"] for event in polled] == list(range(7))


@pytest.mark.parametrize("last", [0, 1, 2, 99])
@pytest.mark.requirement("WOP-5-events")
def test_a_reader_that_comes_back_misses_nothing_and_sees_nothing_twice(client: httpx.Client, last: int) -> None:
    run_id = begin(client)
    tell(client, run_id)
    finish(client, run_id)
    whole = [(0, "run.started"), (1, "node.completed"), (2, "run.completed")]
    by_header = client.get(f"/v1/runs/{run_id}/events", headers={"last-event-id": str(last)})
    assert frames(by_header.text) == whole[last + 1 :]
    by_query = client.get(f"/v1/runs/{run_id}/events", params={"lastSequence": last}, headers=JSON_LOG).json()
    assert [event["sequence"] for event in by_query["events"]] == [number for number, _ in whole[last + 1 :]]


def test_events_are_streamed_as_they_happen_with_signs_of_life_between(server: Running, client: httpx.Client) -> None:
    run_id = begin(client)
    got: list[str] = []

    def read() -> None:
        with server.client(server.key()) as reader, reader.stream("GET", f"/v1/runs/{run_id}/events") as answer:
            got.extend(answer.iter_text())

    thread = threading.Thread(target=read)
    thread.start()
    # The server of these tests gives a sign of life every 0.2 s.
    until(lambda: ": keepalive" in "".join(got))
    assert frames("".join(got)) == [(0, "run.started")]
    tell(client, run_id)
    until(lambda: (1, "node.completed") in frames("".join(got).rpartition("\n\n")[0] + "\n\n"))
    finish(client, run_id)
    thread.join(HANG_SECONDS)
    assert not thread.is_alive()
    assert frames("".join(got)) == [(0, "run.started"), (1, "node.completed"), (2, "run.completed")]


def test_a_stream_ends_when_its_credential_is_revoked(server: Running, client: httpx.Client) -> None:
    run_id, key = begin(client), server.service.gate.add_key("revoked-soon", tenant=OWNER, scopes=("read",))
    got: list[str] = []

    def read() -> None:
        with server.client(key) as reader, reader.stream("GET", f"/v1/runs/{run_id}/events") as answer:
            got.extend(answer.iter_text())

    thread = threading.Thread(target=read)
    thread.start()
    until(lambda: bool(frames("".join(got))))
    server.service.gate.revoke_key("revoked-soon")
    thread.join(HANG_SECONDS)
    assert not thread.is_alive()
    assert ": unauthorized" in "".join(got)


def test_a_poll_waits_for_the_next_event_and_no_longer_than_asked(client: httpx.Client, server: Running) -> None:
    run_id = begin(client)
    path = f"/v1/runs/{run_id}/events/poll"
    waits = []
    for _ in range(5):
        begun = time.monotonic()
        assert client.get(path, params={"lastSequence": 0, "timeout": 0}).json() == {"events": [], "isComplete": False}
        waits.append(time.monotonic() - begun)
    assert min(waits) < POLL_SECONDS
    answers: list[dict[str, Any]] = []

    def poll() -> None:
        with server.client(server.key()) as reader:
            answers.append(reader.get(path, params={"lastSequence": 0, "timeout": POLL_SECONDS_LIMIT}).json())

    thread = threading.Thread(target=poll)
    thread.start()
    tell(client, run_id)
    thread.join(HANG_SECONDS)
    assert [event["type"] for event in answers[0]["events"]] == ["node.completed"]
    finish(client, run_id)
    assert client.get(path, params={"lastSequence": 2}).json() == {"events": [], "isComplete": True}


@pytest.mark.parametrize("accept", ["application/json", "application/json, text/event-stream;q=0.5"])
def test_a_log_comes_as_json_to_whoever_prefers_it(client: httpx.Client, accept: str) -> None:
    run_id = begin(client)
    answer = client.get(f"/v1/runs/{run_id}/events", headers={"accept": accept})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["isComplete"] is False
    assert answer.headers["vary"] == "accept"


@pytest.mark.parametrize("last", ["x", "-1", "1e3", "٣", "9" * 30])
def test_a_place_that_is_none_is_refused(client: httpx.Client, last: str) -> None:
    run_id = begin(client)
    answer = client.get(f"/v1/runs/{run_id}/events", params={"lastSequence": last})
    assert openwop_error_of(answer) == (400, "validation_error")


@pytest.mark.requirement("WOP-5-rate")
def test_of_one_credential_so_many_readers_may_wait(server: Running, client: httpx.Client) -> None:
    run_id, key = begin(client), server.key()
    streams = [server.client(key) for _ in range(51)]
    try:
        opened = [each.send(each.build_request("GET", f"/v1/runs/{run_id}/events"), stream=True) for each in streams]
        assert [answer.status_code for answer in opened] == [200] * 50 + [429]
        opened[-1].read()
        assert openwop_error_of(opened[-1]) == (429, "rate_limited")
        assert int(opened[-1].headers["retry-after"]) > 0
        for answer in opened:
            answer.close()
    finally:
        for each in streams:
            each.close()


def test_a_log_of_many_events_is_whole(client: httpx.Client, server: Running) -> None:
    run_id, access = begin(client), server.service.gate.local(OWNER)
    for number in range(1_050):
        server.service.openwop.emit(access, run_id, "acme.step", {"number": number})
    finish(client, run_id)
    answer = client.get(f"/v1/runs/{run_id}/events", params={"streamMode": "debug"}, headers=JSON_LOG).json()
    assert ([event["sequence"] for event in answer["events"]], answer["isComplete"]) == (list(range(1_052)), True)
    assert len(frames(client.get(f"/v1/runs/{run_id}/events", params={"streamMode": "debug"}).text)) == 1_052


# --- forks ------------------------------------------------------------------------------------------------


def test_a_replay_is_refused_when_the_log_is_gone(server: Running, client: httpx.Client) -> None:
    kept = server.service.openwop.run(server.service.gate.local(OWNER), begin(client))
    lost = replace(kept, run_id="run_lost")
    engine = server.service._context.engine
    engine.write(OWNER, lambda unit: unit.put_run("run_lost", lost.encode(), started=lost.started))
    answer = client.post("/v1/runs/run_lost:fork", json={"mode": "replay", "fromSeq": 0})
    assert openwop_error_of(answer) == (422, "replay_memory_snapshot_unavailable")
    assert answer.json()["details"] == {"fromSeq": 0, "sourceRunId": "run_lost", "reason": "event_log_unavailable"}
    # The bounds come first.
    beyond = client.post("/v1/runs/run_lost:fork", json={"mode": "replay", "fromSeq": 1})
    assert openwop_error_of(beyond) == (422, "invalid_from_seq")


def test_a_replay_is_refused_when_what_it_wrote_was_erased(client: httpx.Client) -> None:
    run_id = begin(client)
    put(client, "erased-ref", "A fact about wombats that must go.", run_id)
    finish(client, run_id)
    found = client.post("/ump/recall", json={"query": "wombats", "scope": {"owner": OWNER, "project": "erased-ref"}})
    name = found.json()["results"][0]["record"]["id"]
    assert client.post("/ump/forget", json={"id": name, "hard": True}).json() == {"result": "erased"}
    answer = client.post(f"/v1/runs/{run_id}:fork", json={"mode": "replay"})
    assert openwop_error_of(answer) == (422, "replay_memory_snapshot_unavailable")
    assert answer.json()["details"]["reason"] == "retention_expired"


# --- one memory -------------------------------------------------------------------------------------------


def test_what_ump_remembers_is_in_the_ref_of_its_project_and_the_other_way_round(client: httpx.Client) -> None:
    name = client.post("/ump/remember", json=draft("use pnpm, never npm", project="shared-space")).json()["id"]
    made = put(client, "shared-space", "deploys go out on Tuesdays", tags=["plans"])
    listed = client.get("/v1/memory/shared-space").json()["entries"]
    assert {entry["id"]: entry["content"] for entry in listed} == {
        name: "use pnpm, never npm",
        made["id"]: "deploys go out on Tuesdays",
    }
    assert client.get(f"/v1/memory/shared-space/{quote(name, safe='')}").json()["content"] == "use pnpm, never npm"
    recalled = client.post(
        "/ump/recall", json={"query": "deploys", "scope": {"owner": OWNER, "project": "shared-space"}}
    ).json()
    assert recalled["results"][0]["record"]["body"]["text"] == "deploys go out on Tuesdays"
    assert client.delete(f"/v1/memory/shared-space/{quote(name, safe='')}").status_code == 204
    gone = client.get("/ump/memory/" + quote(name, safe="")).json()["record"]
    assert gone["lifecycle"]["status"] == "tombstoned"


# --- who may --------------------------------------------------------------------------------------------


WRITES = [
    ("POST", "/v1/memory/x", {"content": "x"}),
    ("DELETE", "/v1/memory/x/y", None),
    ("POST", "/v1/host/memory/forget", {"memoryRef": "x", "subject": "y"}),
    ("POST", "/v1/runs", {"workflowId": "memoranda.compaction", "inputs": {"memoryRef": "x"}}),
    ("POST", "/v1/runs/x:fork", {"mode": "replay"}),
    ("POST", "/v1/host/runs", {"workflowId": "w"}),
    ("POST", "/v1/host/runs/x/events", {"type": "node.started"}),
    ("POST", "/v1/host/runs/x/finish", {}),
    ("POST", "/v1/host/runs/x/secrets", {"secretId": "s", "value": "long enough"}),
    ("POST", "/v1/host/runs/x/undo", {}),
    ("POST", "/v1/host/runs/x/memory/y", {"content": "x"}),
    ("PUT", "/v1/host/workspace/files/x", {"content": "x"}),
    ("DELETE", "/v1/host/workspace/files/x", None),
    ("POST", "/v1/host/commitments/infer", {"memoryRef": "x"}),
    ("POST", "/v1/host/commitments/watch", {"memoryRef": "x"}),
    ("POST", "/v1/host/commitments/x/cancel", {}),
    ("POST", "/v1/host/commitments/x/snooze", {"until": "2999-01-01T00:00:00Z"}),
    ("PUT", "/v1/host/schedules", {"memoryRef": "x", "cron": "0 3 * * *"}),
    ("DELETE", "/v1/host/schedules?memoryRef=x", None),
]
LEARNS = [
    ("POST", "/v1/host/sample/proposals", {"kind": "automation", "artifact": {}}),
    ("POST", "/v1/host/sample/proposals/synthesise", {}),
    ("PATCH", "/v1/host/sample/proposals/x", {"title": "t"}),
    ("DELETE", "/v1/host/sample/proposals/x", None),
    ("POST", "/v1/host/sample/proposals/x/reject", {}),
]
READS = [
    ("GET", path, None)
    for path in (
        *("/v1/runs/x", "/v1/runs/x/events", "/v1/runs/x/events/poll", "/v1/host/runs", "/v1/agents"),
        *("/v1/host/workspace/files", "/v1/host/workspace/files/x", "/v1/host/commitments", "/v1/host/schedules"),
        *("/v1/host/sample/proposals", "/v1/host/sample/proposals/x", "/v1/host/artifacts"),
    )
]


# The others are about one ref, which may be within what was granted.
OF_A_REF = ("/v1/memory/", "/v1/host/memory/", "/v1/host/runs/x/memory", "/v1/runs")
WHOLE = [
    each
    for each in (*READS, *LEARNS, *WRITES)
    if each[0] == "GET" or not each[1].startswith((*OF_A_REF, "/v1/host/commitments/infer"))
]


@pytest.fixture(scope="module")
def readers(server: Running) -> Iterator[dict[str, httpx.Client]]:
    """Clients that may do less than all, by what they may."""
    gate = server.service.gate
    scope = {"owner": OWNER, "project": "p"}
    keys = {
        "read": server.key(OWNER, "read"),
        "write": server.key(OWNER, "write"),
        "narrowed": gate.mint_token(verbs=ALL, scope=scope, ttl_ms=3600_000),
        "peer": gate.mint_token(verbs=ALL, scope={"owner": OWNER}, ttl_ms=3600_000, audience="did:key:zSomebodyElse"),
    }
    clients = {name: server.client(key) for name, key in keys.items()}
    yield clients
    for each in clients.values():
        each.close()


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
@pytest.mark.requirement("WOP-5-auth")
def test_who_may_only_read_is_told_what_is_missing(
    readers: dict[str, httpx.Client], method: str, path: str, body: Any
) -> None:
    answer = readers["read"].request(method, path, **({} if body is None else {"json": body}))
    assert openwop_error_of(answer) == (403, "forbidden")
    assert answer.json()["details"] == {"scopeRequired": "write"}


@pytest.mark.parametrize(("method", "path", "body"), [*READS, ("GET", "/v1/memory/x", None)])
def test_who_may_only_write_reads_nothing(readers: dict[str, httpx.Client], method: str, path: str, body: Any) -> None:
    answer = readers["write"].request(method, path, headers=JSON_LOG)
    assert openwop_error_of(answer) == (403, "forbidden")
    assert answer.json()["details"] == {"scopeRequired": "read"}


@pytest.mark.parametrize(("method", "path", "body"), LEARNS)
def test_learning_needs_its_own_scope(readers: dict[str, httpx.Client], method: str, path: str, body: Any) -> None:
    answer = readers["read"].request(method, path, **({} if body is None else {"json": body}))
    assert openwop_error_of(answer) in [(403, "forbidden"), (400, "validation_error")]
    if answer.status_code == 403:
        assert answer.json()["details"] == {"scopeRequired": "derive"}


@pytest.mark.parametrize("who", ["narrowed", "peer"])
@pytest.mark.parametrize(("method", "path", "body"), WHOLE)
def test_who_is_granted_a_part_reaches_nothing_of_the_whole(
    readers: dict[str, httpx.Client], who: str, method: str, path: str, body: Any
) -> None:
    answer = readers[who].request(method, path, headers=JSON_LOG, **({} if body is None else {"json": body}))
    assert openwop_error_of(answer) in [(403, "forbidden"), (400, "validation_error")]


def test_a_peer_lists_only_what_is_shared(client: httpx.Client, readers: dict[str, httpx.Client]) -> None:
    put(client, "peered", "this is private")
    assert len(client.get("/v1/memory/peered").json()["entries"]) == 1
    assert readers["peer"].get("/v1/memory/peered").json() == {"entries": []}
    assert readers["narrowed"].get("/v1/memory/peered").json() == {"entries": []}


@pytest.mark.requirement("WOP-5-rate")
def test_errors_outside_of_any_route_have_the_envelope(server: Running, tmp_path: Path) -> None:
    with server.client(server.key()) as client:
        assert openwop_error_of(client.get("/v1/agents", headers={"host": "evil.example"})) == (403, "forbidden")
        assert openwop_error_of(client.get("/v1/agents", headers={"origin": "https://evil.example"})) == (
            403,
            "forbidden",
        )
        assert openwop_error_of(client.post("/v1/agents")) == (405, "method_not_allowed")
        assert client.post("/v1/agents").headers["allow"]
        assert openwop_error_of(client.get("/v1/")) == (404, "not_found")
        large = client.post("/v1/memory/x", content=b" " * 3_000_000, headers={"content-type": "application/json"})
        assert openwop_error_of(large) == (400, "validation_error")
        form = client.post("/v1/runs", content=b"{}", headers={"content-type": "text/plain"})
        assert openwop_error_of(form) == (400, "validation_error")
    # Time stands still, however long the requests take.
    with running(tmp_path / "slow", rate_limit=1, clock=lambda: 0.0) as slow, slow.client(slow.key()) as client:
        answers = [client.get("/v1/agents") for _ in range(3)]
        assert openwop_error_of(answers[-1]) == (429, "rate_limited")
        assert answers[-1].headers["retry-after"]


# --- what is claimed, and what is there only for suites ----------------------------------------------------


@pytest.mark.requirement("WOP-5-seams")
def test_nothing_for_suites_is_served_unless_it_is_asked_for(client: httpx.Client) -> None:
    for operation in SEAMS.operations:
        assert openwop_error_of(client.post(operation.path, json={}))[0] in (404, 405)
    assert "fixtures" not in client.get("/.well-known/openwop").json()
    started = client.post("/v1/runs", json={"workflowId": "conformance-noop"})
    assert openwop_error_of(started) == (400, "validation_error")


@pytest.mark.requirement("WOP-4-honour")
def test_what_needs_somebody_to_attend_is_claimed_only_then(client: httpx.Client, tmp_path: Path) -> None:
    idle = client.get("/.well-known/openwop").json()
    assert idle["memory"]["distillation"]["scheduled"] is False
    assert "commitments" not in idle["agents"]
    with running(tmp_path / "attended") as server, server.client("") as stranger:
        server.service.upkeep.start()
        attended = stranger.get("/.well-known/openwop").json()
    assert attended["memory"]["distillation"]["scheduled"] is True
    assert attended["agents"]["commitments"] == {"supported": True, "fireConditions": ["time", "predicate"]}


def test_a_credential_is_not_needed_for_discovery_and_a_bad_one_does_no_harm(server: Running) -> None:
    with server.client("nonsense") as client:
        assert client.get("/.well-known/openwop").status_code == 200


# --- secrets ----------------------------------------------------------------------------------------------


def test_no_secret_of_a_run_is_anywhere_on_disk(tmp_path: Path) -> None:
    home, secret = tmp_path / "home", "hush-7f3a9c55e1d04b68"
    with running(home, seams=SEAMS) as server, server.client(server.key()) as client:
        run_id = begin(client)
        client.post(f"/v1/host/runs/{run_id}/secrets", json={"secretId": "crm", "value": secret})
        made = put(client, "r", f"the key is {secret}", run_id, tags=[secret], nodeId="n")
        assert secret not in json.dumps(made)
        client.post(f"/v1/host/runs/{run_id}/events", json={"type": "acme.log", "payload": {"a": [secret], secret: 1}})
        client.post(f"/v1/host/runs/{run_id}/events", json={"type": secret})
        client.post(f"/v1/host/runs/{run_id}/finish", json={"variables": {"v": {"deep": secret}}})
        client.post("/v1/runs", json={"workflowId": "memoranda.compaction", "inputs": {"memoryRef": "r"}})
        client.post("/v1/runs", json={"workflowId": "memoranda.distillation", "inputs": {"memoryRef": "r"}})
        canary = {"memoryRef": "d", "tokenBudget": 900, "sources": [f"uses {secret}-canary"]}
        client.post("/v1/host/sample/memory/distill", json={**canary, "includeSecretCanary": True})
        assert "[REDACTED:" in client.get("/v1/memory/d").text
        on_disk = [path for path in home.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
        assert on_disk == []
    assert [path for path in home.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()] == []


def test_the_secrets_of_another_tenants_run_cannot_be_set(server: Running, client: httpx.Client) -> None:
    run_id = begin(client)
    with server.client(server.key("tenant-b")) as other:
        asked = {"secretId": "s", "value": "long enough"}
        answer = other.post(f"/v1/host/runs/{run_id}/secrets", json=asked)
        assert openwop_error_of(answer) == (404, "not_found")
        for path in ("finish", "events", "undo"):
            body = {"type": "node.started"} if path == "events" else {}
            assert other.post(f"/v1/host/runs/{run_id}/{path}", json=body).status_code == 404
        assert other.post(f"/v1/host/runs/{run_id}/memory/x", json={"content": "x"}).status_code == 404
        # Two tenants may call a run the same.
        assert other.post("/v1/host/runs", json={"workflowId": "w", "runId": run_id}).status_code == 201
        assert [event["type"] for event in _log(other, run_id)] == ["run.started"]


def _log(client: httpx.Client, run_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/v1/runs/{run_id}/events", headers=JSON_LOG).json()["events"]
    return found


# --- hostile ----------------------------------------------------------------------------------------------


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
TAKES = [each for each in all_operations(SEAMS) if each.standard is OPENWOP and each.asks and each.has_body]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    home = tmp_path_factory.mktemp("hostile") / "home"
    with (
        running(home, seams=SEAMS) as server,
        server.client(server.key(OWNER, *ALL, "activate")) as client,
    ):
        yield client


@pytest.mark.parametrize("operation", TAKES, ids=lambda operation: str(operation.name))
def test_no_body_makes_the_server_fail(hostile: httpx.Client, operation: Operation) -> None:
    run_id = begin(hostile)
    path = operation.path.replace("{run_id}", run_id).replace("{ref}", "r").replace("{path}", "x.md")
    path = path.replace("{proposal_id}", "p").replace("{commitment_id}", "c")

    @settings(max_examples=15, suppress_health_check=list(HealthCheck), database=None)
    @given(
        body=JSON
        | st.dictionaries(st.sampled_from(sorted(operation.example) or ["x"]), JSON, max_size=4).map(
            lambda wrong: {**operation.example, **wrong}
        )
    )
    def ask(body: Any) -> None:
        answer = hostile.request(operation.method, path, json=body)
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            openwop_error_of(answer)

    ask()
