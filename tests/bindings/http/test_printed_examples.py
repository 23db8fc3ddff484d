"""Examples as the founding documents print them, on a running server: each is accepted, or refused for a reason.

Printed ids and owners are cut short ("urn:ump:9f2c…", "did:…"). Where a real one must stand for the example to mean
anything, it is put in; the cut ones themselves are refused, because they are no ids. The block of SML, its levels and
the flagship query are in tests/service/test_founding_documents.py.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.bindings.http.running import OWNER, Running, running
from tests.standards.oms.published import of_type

from memoranda import Memoranda
from memoranda.service.core.limits import Quotas
from memoranda.standards.openwop.refs import qualify_ref

# --- UMP 0.1 -----------------------------------------------------------------------------------------------

UMP_RECORD: dict[str, Any] = {
    "ump": "0.1",
    "id": "urn:ump:9f2c…",
    "kind": "semantic",
    "body": {"text": "Use pnpm, never npm, in this repo.", "structured": {}},
    "scope": {
        "owner": "did:key:z6Mk…",
        "user": "did:key:z6Mk…",
        "project": "github.com/example/project",
        "agent": "claude-code",
        "session": "sess_abc",
        "visibility": "private",
    },
    "time": {
        "created": "2026-06-04T10:00:00Z",
        "observed": "2026-06-04T09:58:00Z",
        "valid_from": "2026-06-04T00:00:00Z",
        "valid_to": None,
    },
    "lifecycle": {"confidence": 0.82, "salience": 0.6, "decay": "half_life:P90D", "status": "active"},
    "supersedes": ["urn:ump:1a…"],
    "superseded_by": [],
    "relations": [
        {"type": "contradicts", "target": "urn:ump:7b…"},
        {"type": "about", "target": "entity:pnpm"},
    ],
    "provenance": {
        "actor": "did:key:z6Mk…",
        "actor_kind": "user",
        "method": "user_correction",
        "source": {"ref": "sess_abc#turn_12"},
        "evidence": [{"ref": "sess_abc#turn_12", "weight": 1.0}],
    },
    "consent": {"retention": "P365D", "exportable": True, "redact": ["body.structured.token"]},
    "integrity": {"content_hash": "blake3:5e…", "signature": "ed25519:9c…", "signer": "did:key:z6Mk…"},
}
UMP_REMEMBER: dict[str, Any] = {
    "record": {
        "kind": "procedural",
        "body": {"text": "run pnpm gate before handoff"},
        "scope": {"owner": "did:…", "project": "…/recall"},
        "provenance": {"actor": "did:…", "actor_kind": "user", "method": "user_correction"},
    }
}


@pytest.mark.requirement("UMP-examples")
def test_the_printed_record_of_ump_is_stored_once_its_ids_are_whole(client: httpx.Client) -> None:
    cut = client.post("/ump/remember", json={"record": UMP_RECORD})
    assert cut.status_code in (400, 403)
    record = {name: value for name, value in UMP_RECORD.items() if name not in ("id", "integrity", "supersedes")}
    record["scope"] = {**UMP_RECORD["scope"], "owner": OWNER, "user": OWNER}
    record["provenance"] = {**UMP_RECORD["provenance"], "actor": OWNER}
    record["relations"] = UMP_RECORD["relations"][1:]
    made = client.post("/ump/remember", json={"record": record})
    assert made.json()["result"] == "created", made.text
    shown = client.get(f"/ump/memory/{made.json()['id']}").json()["record"]
    assert shown["body"]["text"] == record["body"]["text"]
    for name in ("kind", "lifecycle", "relations", "consent"):
        assert shown[name] == record[name]
    assert shown["time"] == record["time"]


@pytest.mark.requirement("UMP-examples")
def test_the_printed_operations_of_ump_answer_as_printed(client: httpx.Client) -> None:
    capabilities = client.get("/ump/capabilities").json()
    printed = ("server", "ump", "conformance", "kinds", "bindings", "retrieval_signals", "max_recall", "writable")
    assert set(printed) <= set(capabilities)
    assert (capabilities["ump"], capabilities["conformance"], capabilities["writable"]) == ("0.1", "L3", True)
    request = json.loads(json.dumps(UMP_REMEMBER).replace("did:\\u2026", OWNER))
    made = client.post("/ump/remember", json=request).json()
    assert made["result"] in ("created", "merged")
    recall = {
        "query": "package manager for this repo",
        "scope": {"owner": OWNER, "project": "…/recall", "agent": "claude-code"},
        "filter": {"kind": ["semantic", "procedural"], "valid_at": "2026-06-04T10:00:00Z"},
        "limit": 8,
        "ranking_hints": {"prefer": ["recency"]},
    }
    assert set(client.post("/ump/recall", json=recall).json()) >= {"results"}
    patch = {"body": {"text": "Use bun, not pnpm."}, "time": {"valid_from": "2999-06-04T10:00:00Z"}}
    revised = client.post("/ump/revise", json={"id": made["id"], "patch": patch}).json()
    assert revised["supersedes"] == [made["id"]]
    forget = {"id": revised["id"], "reason": "user_revoked", "hard": False}
    assert client.post("/ump/forget", json=forget).json() == {"result": "tombstoned"}
    assert client.get("/ump/memory/urn:ump:aaaaaaaaaaaaaaaaaaaaaaaaaa").json()["error"]["code"] == "not_found"


UMP_WRONG: dict[str, dict[str, Any]] = {
    "kind": {"kind": "fact"},
    "text": {"body": {"structured": {}}},
    "visibility": {"scope": {"owner": OWNER, "visibility": "everyone"}},
    "confidence": {"lifecycle": {"confidence": 1.01}},
    "salience": {"lifecycle": {"salience": -0.1}},
    "status": {"lifecycle": {"status": "dead"}},
    "actor_kind": {"provenance": {"actor": OWNER, "actor_kind": "robot", "method": "m"}},
    "retention": {"consent": {"retention": "a year"}},
    "exportable": {"consent": {"exportable": "no"}},
    "relation": {"relations": [{"type": "about"}]},
    "time": {"time": {"valid_from": "2026-06-05T00:00:00Z", "valid_to": "2026-06-04T00:00:00Z"}},
    "supersedes": {"supersedes": "urn:ump:1a"},
}


@pytest.mark.requirement("UMP-2-values")
@pytest.mark.parametrize("field", UMP_WRONG)
def test_a_value_outside_of_the_printed_range_or_list_is_refused(client: httpx.Client, field: str) -> None:
    record = {**UMP_REMEMBER["record"], "scope": {"owner": OWNER}}
    record["provenance"] = {**record["provenance"], "actor": OWNER}
    refused = client.post("/ump/remember", json={"record": {**record, **UMP_WRONG[field]}})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_record"), refused.text


@pytest.mark.requirement("UMP-3.7-codes-occur")
def test_each_of_the_eight_codes_occurs(tmp_path: Path) -> None:
    def code(answer: httpx.Response) -> str:
        assert set(answer.json()) == {"error"}
        return str(answer.json()["error"]["code"])

    def record(text: str, **fields: Any) -> dict[str, Any]:
        actor = {"actor": OWNER, "actor_kind": "user", "method": "m"}
        return {"kind": "semantic", "body": {"text": text}, "scope": {"owner": OWNER}, "provenance": actor, **fields}

    with (
        running(tmp_path / "home", quotas=Quotas(writes_per_minute=3)) as server,
        server.client(server.key()) as client,
    ):
        made = client.post("/ump/remember", json={"record": record("x")}).json()["id"]
        signed = client.get(f"/ump/memory/{made}").json()["record"]
        forged = {**signed, "body": {"text": "y"}, "id": f"urn:ump:{'a' * 52}"}
        public = record("z", consent={"exportable": False}, scope={"owner": OWNER, "visibility": "public"})
        with server.client("") as stranger, server.client(server.key(OWNER, "read")) as reader:
            found = {
                "unauthorized": code(stranger.post("/ump/recall", json={"query": "x"})),
                "forbidden_scope": code(reader.post("/ump/forget", json={"id": made})),
                "not_found": code(client.get(f"/ump/memory/urn:ump:{'b' * 52}")),
                "invalid_record": code(client.post("/ump/remember", json={"record": {}})),
                "consent_violation": code(client.post("/ump/remember", json={"record": public})),
                "signature_invalid": code(client.post("/ump/remember", json={"record": forged})),
            }
        for number in range(4):
            last = client.post("/ump/remember", json={"record": record(f"more {number}")})
        found["rate_limited"] = code(last)
        # Files of a later major version of another standard.
        bundle = tmp_path / "later"
        bundle.mkdir()
        (bundle / "memories.jsonl").write_bytes(b"")
        (bundle / "manifest.json").write_text('{"oams_version": "9.0", "namespaces": [], "memory_count": 0}')
        with Memoranda.open(tmp_path / "m.db") as m:
            found["unsupported"] = m.import_files(bundle).refusals[0].code
        assert found == {name: name for name in found}


# --- OAMS 0.1 ----------------------------------------------------------------------------------------------

OAMS_MEMORY: dict[str, Any] = {
    "key": "string",
    "namespace": "string",
    "value": "string",
    "tags": ["string", "..."],
    "metadata": {"...": "..."},
    "created_at": "2026-04-27T12:00:00Z",
    "updated_at": "2026-04-27T12:00:00Z",
    "embedding_model": "string",
    "embedding": [0.0123, -0.0456, "..."],
    "parent_id": "string | null",
    "source_id": "string | null",
}


@pytest.mark.requirement("OAMS-examples")
def test_the_printed_memory_of_oams_is_stored_without_the_dots_in_its_vector(client: httpx.Client) -> None:
    path = "/v1/oams/memories/string/string"
    refused = client.put(path, json=OAMS_MEMORY)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, -32003)
    memory = {**OAMS_MEMORY, "embedding": [0.0123, -0.0456]}
    assert client.put(path, json=memory).status_code in (200, 201)
    shown = client.get(path).json()
    for name in ("key", "value", "tags", "source_id"):
        assert shown[name] == memory[name], name
    # A namespace without an owner is a scope of one's own.
    assert shown["namespace"].endswith(":string")


@pytest.mark.requirement("OAMS-examples")
@pytest.mark.parametrize(
    "namespace",
    ["user-x123ab:personal", "user-x123ab:project-mithril", "org-acme:legal-archive", "agent-research-bot:scratchpad"],
)
def test_the_printed_namespaces_are_read_and_written_by_their_owner(server: Running, namespace: str) -> None:
    memory = {**OAMS_MEMORY, "namespace": namespace, "embedding": [0.5]}
    with server.client(server.key(f"did:example:{namespace.partition(':')[0]}")) as owner:
        path = f"/v1/oams/memories/{quote(namespace, safe='')}/string"
        assert owner.put(path, json=memory).status_code in (200, 201)
        assert owner.get(path).json()["namespace"] == namespace
        query = {"query": "string", "namespaces": [namespace], "k": 8}
        assert [found["key"] for found in owner.post("/v1/oams/recall", json=query).json()] == ["string"]


@pytest.mark.requirement("OAMS-examples")
def test_the_printed_query_over_two_namespaces_of_one_owner_is_answered(server: Running) -> None:
    query: dict[str, Any] = {
        "query": "what did I learn about FedRAMP?",
        "namespaces": ["user-x123ab:personal", "user-x123ab:project-mithril"],
        "k": 8,
    }
    with server.client(server.key("did:example:user-x123ab")) as owner:
        for namespace in query["namespaces"]:
            path = f"/v1/oams/memories/{quote(str(namespace), safe='')}/fedramp"
            memory = {**OAMS_MEMORY, "key": "fedramp", "namespace": namespace, "value": f"FedRAMP in {namespace}"}
            assert owner.put(path, json={**memory, "embedding": [0.5]}).status_code in (200, 201)
        found = owner.post("/v1/oams/recall", json=query).json()
        assert {memory["namespace"] for memory in found} == set(query["namespaces"])
        spanning = {**query, "namespaces": ["user-x123ab:personal", "user-y456cd:personal"]}
        assert owner.post("/v1/oams/recall", json=spanning).json()["error"]["code"] == -32005


OAMS_SOURCES = (
    "https://example.com/article",
    "sha256:abc123...",
    "imap:msgid:<...>",
    "slack:CH123:1700000000.123456",
    "transcript:<call-id>:<offset-seconds>",
    "dream:<strategy>:<run-id>",
    None,
)


@pytest.mark.requirement("OAMS-5-printed-sources")
@pytest.mark.parametrize("source", OAMS_SOURCES)
def test_the_printed_sources_come_back_as_they_are(client: httpx.Client, source: str | None) -> None:
    path = f"/v1/oams/memories/user-x123ab:sources/{OAMS_SOURCES.index(source)}"
    made = client.put(path, json={"value": f"from {source}", "source_id": source})
    assert made.status_code in (200, 201), made.text
    assert client.get(path).json().get("source_id") == source
    listed = client.get("/v1/oams/memories/user-x123ab:sources").json()["memories"]
    assert source in [memory.get("source_id") for memory in listed]


STRATEGIES = "synthesize pattern_extract insight_generate compress associate validate evolve forecast reflect".split()


@pytest.mark.requirement("OAMS-6-printed-strategies")
def test_the_nine_strategies_and_those_of_vendors_are_stored_without_a_warning(client: httpx.Client) -> None:
    made: dict[str, Any] = {}
    for strategy in (*STRATEGIES, "vendor:acme"):
        made = {
            "value": f"by {strategy}",
            "parent_id": "user-x123ab:dreams/input",
            "metadata": {
                "dream_strategy": strategy,
                "dream_inputs": [["user-x123ab:dreams", "input"]],
                "dream_run_id": "0b9d6f9e-3c0f-4c58-9d7e-0d1d6f7b9a10",
            },
        }
        answer = client.put(f"/v1/oams/memories/user-x123ab:dreams/{strategy.replace(':', '-')}", json=made)
        assert answer.status_code in (200, 201), answer.text
        assert answer.headers.get_list("X-OAMS-Warning") == []
        assert answer.json()["metadata"]["dream_strategy"] == strategy
    unknown = {**made, "metadata": {**made["metadata"], "dream_strategy": "daydream"}}
    warned = client.put("/v1/oams/memories/user-x123ab:dreams/unknown", json=unknown)
    # Section 8: warn (not error) on unknown values.
    assert warned.status_code in (200, 201)
    assert warned.headers.get_list("X-OAMS-Warning") != []


@pytest.mark.requirement("OAMS-7-printed-manifest")
def test_the_printed_manifest_is_read_and_compared_with_its_memories(tmp_path: Path) -> None:
    folder = tmp_path / "oams-export-2026-04-27T12:00:00Z"
    folder.mkdir()
    names = ["user-x123ab:personal", "user-x123ab:project-mithril"]
    lines = b"".join(
        json.dumps({**OAMS_MEMORY, "namespace": name, "embedding": [0.5]}).encode() + b"\n" for name in names
    )
    (folder / "memories.jsonl").write_bytes(lines)
    manifest: dict[str, Any] = {
        "oams_version": "0.1",
        "source_vendor": "rem-labs",
        "exported_at": "2026-04-27T12:00:00Z",
        "namespaces": names,
        "memory_count": 4218,
        "embedding_model": "text-embedding-3-small",
        "checksum_sha256": "...",
    }
    with Memoranda.open(tmp_path / "m.db") as m:
        (folder / "manifest.json").write_text(json.dumps(manifest))
        refused = m.import_files(folder, adopt=True)
        assert (refused.created, list(m)) == (0, [])
        assert refused.refused
        whole = {**manifest, "memory_count": 2, "checksum_sha256": hashlib.sha256(lines).hexdigest()}
        (folder / "manifest.json").write_text(json.dumps(whole))
        assert m.import_files(folder, adopt=True).created == 2


# --- openwop agent memory 1.1 ------------------------------------------------------------------------------


@pytest.mark.requirement("WOP-ref-portability")
def test_a_ref_of_another_host_resolves_to_nothing_here(client: httpx.Client, server: Running) -> None:
    with server.client(server.key("did:example:elsewhere")) as other:
        other.post("/v1/memory/agent-1", json={"content": "of the other"})
        mark = qualify_ref("agent-1", "did:example:elsewhere")
    for foreign in (mark, f"memoranda://t-{'a' * 20}/agent-1"):
        answer = client.get(f"/v1/memory/{quote(foreign, safe='')}")
        assert (answer.status_code, answer.json()) == (200, {"entries": []})


@pytest.mark.requirement("WOP-examples")
@pytest.mark.parametrize(
    "ref", ["workspaces/tenant-A/agents/agent-1/memories", "mem://customer-support/agent-1", "agent-1"]
)
def test_the_printed_refs_are_refs(client: httpx.Client, ref: str) -> None:
    path = f"/v1/memory/{quote(ref, safe='')}"
    made = client.post(path, json={"content": "The customer prefers email follow-up.", "tags": ["tenant-A"]})
    assert made.status_code == 201
    assert [entry["id"] for entry in client.get(path, params={"tag": "tenant-A"}).json()["entries"]] == [
        made.json()["id"]
    ]
    # An id with a tenant as prefix, as the document prints one, is a host's own.
    assert (
        client.put(f"{path}/{quote('tenant-A:mem-1', safe='')}", json={"content": "x"}).json()["id"] == "tenant-A:mem-1"
    )


# --- CAL 1.0 -----------------------------------------------------------------------------------------------

CAL_ADD = '''CAL/1 ADD reasoning
SET subject = "customer:priya"
SET relation = "dispute_analysis"
SET object = "charge-2026-02-28"
SET content = "Charge matches annual plan renewal on 2026-02-28. Customer last contacted re: plan in Jan. \
Likely unrecognised due to annual cycle."
SET confidence = 0.91
SET tags = ["support:billing", "resolution:explain"]
REASON "agent inferred cause from renewal date and contact history"'''
CAL_RECALL = """CAL/1 RECALL workflows
WHERE tags INCLUDE ["support:billing"]
AND goal_state = "open"
ORDER BY time DESC
LIMIT 50
FORMAT markdown"""


@pytest.mark.requirement("CAL-examples")
def test_the_printed_statements_of_cal_run(tmp_path: Path) -> None:
    with (
        running(tmp_path / "home", settings={"cal_evolve": "on"}) as server,
        server.client(server.key()) as client,
    ):
        prepared = client.post("/cal/prepare", json={"query": CAL_ADD})
        assert prepared.status_code == 200, prepared.text
        done = client.post("/cal/execute", json={"token": prepared.json()["token"]})
        assert done.status_code == 200, done.text
        read = 'RECALL reasonings WHERE subject = "customer:priya" AND tags INCLUDE ["support:billing"] FORMAT json'
        assert "annual cycle" in client.post("/cal", json={"query": read}).text
        assert client.post("/cal", json={"query": CAL_RECALL}).status_code == 200


@pytest.mark.requirement("CAL-readme-statements")
def test_the_nine_printed_statements_run_with_their_tiers_and_a_revert_leaves_three_grains(tmp_path: Path) -> None:
    def cal(query: str) -> dict[str, Any]:
        return m.cal(query, approve=True)

    with Memoranda.open(tmp_path / "m.db") as m:
        added = cal('ADD belief SET subject = "ada" SET relation = "likes" SET object = "tea" REASON "said so"')
        first = added["new_hash"]
        superseded = cal(f'SUPERSEDE {first} SET object = "coffee" REASON "changed"')
        reverted = cal(f'REVERT {superseded["new_hash"]} REASON "a mistake"')
        three = {first, superseded["new_hash"], reverted["new_hash"]}
        assert len(three) == 3
        read = {
            "RECALL": 'RECALL beliefs ABOUT "ada"',
            "ASSEMBLE": "ASSEMBLE FROM all: (RECALL beliefs) BUDGET 100 tokens",
            "EXISTS": f"EXISTS {first}",
            "HISTORY": f"HISTORY {first}",
            "EXPLAIN": 'EXPLAIN RECALL beliefs ABOUT "ada"',
            "BATCH": "BATCH { a: RECALL beliefs, b: RECALL events }",
        }
        assert {name: cal(query)["_cal"]["tier"] for name, query in read.items()} == dict.fromkeys(read, 0)
        assert [each["_cal"]["tier"] for each in (added, superseded, reverted)] == [1, 1, 1]
        # Old grains survive.
        assert all(cal(f"EXISTS {name}")["exists"] for name in three)
        assert {f"sha256:{row['content_address']}" for row in cal(read["HISTORY"])["versions"]} == three
        assert cal(read["RECALL"])["results"][0]["grain"]["object"] == "tea"


# --- OMS 1.3 -----------------------------------------------------------------------------------------------

OMS_TYPES = "belief event state workflow action observation goal reasoning consensus consent".split()


@pytest.mark.requirement("OMS-readme-header", "OMS-7-references")
@pytest.mark.parametrize("number", range(1, 11))
def test_the_printed_header_is_at_its_offsets_for_each_of_the_ten_types(tmp_path: Path, number: int) -> None:
    reference = {"uri": "https://example.com/picture.png", "modality": "image", "mime_type": "image/png"}
    fields = {**of_type(OMS_TYPES[number - 1]), "namespace": "shop", "content_refs": [reference]}
    with Memoranda.open(tmp_path / "m.db") as m:
        stored = m.grains.get(m.grains.put(fields).address)
        version, flags, type_byte, space, created = struct.unpack(">BBBHI", stored.grain.blob[:9])
        assert (version, type_byte) == (0x01, number)
        # The hash of the namespace and the creation time are read without the payload.
        assert space == int.from_bytes(hashlib.sha256(b"shop").digest()[:2], "big")
        assert created == stored.grain.fields["created_at"] // 1000
        # Content is referenced, never embedded: the flag says so, and the blob has the address alone.
        assert flags & 0x08
        assert b"https://example.com/picture.png" in stored.grain.blob
        assert hashlib.sha256(stored.grain.blob).hexdigest() == stored.address
