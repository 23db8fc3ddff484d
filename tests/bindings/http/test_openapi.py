"""The OpenAPI document: it lists exactly the routes, and what it says is so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema_rs
import pytest
from starlette.applications import Starlette
from tests.bindings.http.running import ALL, OWNER, Running, draft, running
from tests.embedders import WORDS_ALONE

from memoranda.bindings.http.app import all_operations, create_app
from memoranda.bindings.http.oams import EXAMPLE_DREAM
from memoranda.bindings.http.openapi import body_schema_name, build_document, operation_parameters
from memoranda.bindings.http.openwop import EXAMPLE_PATH, EXAMPLE_RUN, OPENWOP
from memoranda.bindings.http.openwop_two import OPENWOP_TWO
from memoranda.bindings.http.operation import Operation
from memoranda.bindings.http.route import RouteTable
from memoranda.bindings.operations.oams import EXAMPLE_KEY, EXAMPLE_MEMORY, EXAMPLE_NAMESPACE
from memoranda.bindings.operations.oms import EXAMPLE_ADDRESS, EXAMPLE_GRAIN
from memoranda.bindings.operations.openwop import EXAMPLE_ENTRY, EXAMPLE_PROPOSAL, EXAMPLE_REF
from memoranda.bindings.operations.ump import EXAMPLE_ID, EXAMPLE_OWNER
from memoranda.conformance.openwop import SEAMS
from memoranda.opening import open_service
from memoranda.settings import load_settings

OPERATIONS = all_operations()
DOCUMENT = build_document(OPERATIONS, server_version="0")
REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "http.md"


def check(value: object, schema: str) -> None:
    whole = {"$ref": f"#/components/schemas/{schema}", "components": DOCUMENT["components"]}
    jsonschema_rs.validate(whole, value)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Starlette]:
    service = open_service(load_settings(WORDS_ALONE, home=tmp_path / "home"))
    yield create_app(service)
    service.close()


@pytest.mark.requirement("UMP-4.2-routes")
def test_the_document_lists_exactly_the_routes(app: Starlette) -> None:
    routes = {
        (method.lower(), route.path)
        for table in app.routes
        if isinstance(table, RouteTable)
        for route in table.routes
        for method in (route.methods or set()) - {"HEAD"}
    }
    described = {(method, path) for path, item in DOCUMENT["paths"].items() for method in item}
    assert described == routes


def test_seams_are_in_the_document_only_when_they_are_served(tmp_path: Path) -> None:
    paths = {operation.path for operation in SEAMS.operations}
    assert not paths & set(DOCUMENT["paths"])
    with_seams = build_document(all_operations(SEAMS), server_version="0")
    assert set(with_seams["paths"]) - set(DOCUMENT["paths"]) == paths
    with running(tmp_path / "home", seams=SEAMS) as server, server.client(server.key()) as client:
        assert client.get("/openapi.json").json()["paths"] == with_seams["paths"]
        for operation in SEAMS.operations:
            path = operation.path.replace("{workflow_id}", "conformance-noop")
            body = operation.example if operation.method == "POST" else None
            answer = client.request(operation.method, path, json=body)
            # The hook that reads a run of another owner is refused by design.
            allowed = (404,) if operation.name == "openwop_read_foreign_run" else operation.success
            assert answer.status_code in allowed, (path, answer.text)


def test_errors_of_openwop_are_as_described(server: Running, client: httpx.Client) -> None:
    file = "/v1/host/workspace/files/x.md"
    with server.client("") as nobody, server.client(server.key("t", "read")) as reader:
        answers = {
            400: client.post("/v1/runs", json={"workflowId": "none"}),
            401: nobody.get("/v1/agents"),
            403: reader.put(file, json={"content": "x"}),
            404: client.get(file),
            405: client.post("/v1/agents"),
            409: client.put(file, json={"content": "x"}, headers={"if-match": '"v7"'}),
            413: client.put(file, json={"content": "x" * 1_100_000}),
            422: client.post(
                "/v1/runs",
                json={
                    "workflowId": "memoranda.distillation",
                    "inputs": {"memoryRef": "x"},
                    "configurable": {"distillation.tokenBudget": 1},
                },
            ),
        }
    for status, answer in answers.items():
        check(answer.json(), "OpenwopError")
        # A wrong method is not an answer of any operation.
        is_described = status == 405 or f"openwop{status}" in DOCUMENT["components"]["responses"]
        assert (answer.status_code, is_described) == (status, True)


def test_the_reference_page_names_every_route() -> None:
    text = REFERENCE.read_text("utf-8")
    missing = [f"{each.method} {each.path}" for each in OPERATIONS if f"`{each.method} {each.path}`" not in text]
    assert missing == []


@pytest.mark.requirement("WOP-5-idempotency")
def test_idempotency_key_is_described_where_it_holds_and_nowhere_else(client: httpx.Client) -> None:
    for path, operations in client.get("/v1/openapi.json").json()["paths"].items():
        for method, described in operations.items():
            headers = {each["name"] for each in described.get("parameters", ()) if each["in"] == "header"}
            is_openwop = path.startswith(("/v1/", *OPENWOP_TWO.prefixes)) and not path.startswith("/v1/oams/")
            assert ("Idempotency-Key" in headers) is (is_openwop and method != "get"), (method, path)


def test_the_document_is_what_the_server_gives(client: httpx.Client) -> None:
    given = client.get("/openapi.json").json()
    assert given["paths"] == DOCUMENT["paths"]
    assert given["openapi"] == "3.1.0"


def test_every_schema_is_one() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert jsonschema_rs.meta.is_valid(schema), name


# A stream can only be cancelled while it runs: test_cal_stream.py does that. What is redacted or taken back is below,
# and an owner is deleted in test_admin.py.
# Agents are shown one by one in test_openwop_two.py.
_ELSEWHERE = ("cal_cancel", "redact", "undo_import", "delete_tenant", "openwop_agent", "openwop2_agent")
RUNNABLE = [operation for operation in OPERATIONS if operation.name not in _ELSEWHERE]


def test_what_an_owner_takes_out_and_takes_back_is_answered_as_described(tmp_path: Path) -> None:
    secret = "the key is sk-live-" + "4eC39HqLyjWDarjtT1zdp7dc"
    with (
        running(tmp_path / "home", settings={"secrets": "off"}) as server,
        server.client(server.key(OWNER, *ALL, "erase")) as client,
    ):
        kept = client.post("/ump/remember", json=draft(text=secret)).json()["id"]
        found = client.get("/ump/suspects").json()
        check(found, "SuspectsAnswer")
        assert [each["id"] for each in found["suspects"]] == [kept]
        check(redacted := client.post("/ump/redact", json={"id": kept}).json(), "RedactAnswer")
        assert "4eC39" not in client.get(f"/ump/memory/{redacted['id']}").text
        items = [{"form": "ump", "value": {"kind": "semantic", "body": {"text": "use bun"}}}]
        check(part := client.post("/ump/imports", json={"items": items, "what": "x.csv"}).json(), "ImportPartAnswer")
        check(undone := client.post("/ump/imports/undo", json={"id": part["import"]}).json(), "UndoImportAnswer")
        assert undone["forgotten"] == 1


@pytest.mark.parametrize("operation", RUNNABLE, ids=lambda operation: str(operation.name))
def test_the_example_runs_and_its_answer_is_as_described(server: Running, operation: Operation) -> None:
    is_wop = operation.standard in (OPENWOP, OPENWOP_TWO)
    is_undone = operation.name == "oams_undo_dream"
    # Only an API key can hold the right to activate or to erase, and only an owner's consolidates.
    is_owners = operation.name in ("set_rules", "audit_prune")
    needs_key = is_wop or is_undone or is_owners or operation.name == "grain_erase"
    with server.client(server.key(OWNER, *ALL, "activate", "erase") if needs_key else None) as client:
        there: dict[str, str] = {}
        if not is_owners:
            there = made_for(client, operation) if is_wop else dreamt(client) if is_undone else seed(client)
        if operation.name == "redo_last":
            client.post("/ump/undo")
        has_body = operation.has_body and operation.method != "DELETE"
        if has_body and body_schema_name(operation):
            check(operation.example, body_schema_name(operation))
        path = operation.path
        params = {}
        for each in operation_parameters(operation):
            if each["in"] == "path":
                path = path.replace(
                    f"{{{each['name']}}}", quote(there.get(each["example"]) or each["example"], safe="")
                )
            elif each["in"] == "query" and "example" in each:
                params[each["name"]] = each["example"]
        example = {"token": prepared(client)} if operation.name == "cal_execute" else operation.example
        body: dict[str, Any] = {"json": example} if has_body else {}
        client.headers.update(operation.standard.selected_by)
        with client.stream(operation.method, path, params=params, **body) as answer:
            assert answer.status_code in operation.success, answer.read()
            if operation.answer:
                answer.read()
                check(answer.json(), operation.answer)
            elif answer.status_code != 204:
                media_type = answer.headers["content-type"].partition(";")[0]
                assert media_type == next(iter(operation.gives))


def made_for(client: httpx.Client, operation: Operation) -> dict[str, str]:
    """What an example of openwop speaks of, made anew: the name in the example, and the one that the host gave."""
    entry = {**EXAMPLE_ENTRY, "content": "Remind me tomorrow at 9:00 to send the invoices."}
    ids = [client.post(f"/v1/memory/{quote(EXAMPLE_REF, safe='')}", json=entry).json()["id"] for _ in range(2)]
    commitments = client.post("/v1/host/commitments/infer", json={"memoryRef": EXAMPLE_REF}).json()["commitments"]
    # Before the run, which sees only earlier versions.
    client.put(f"/v1/host/workspace/files/{EXAMPLE_PATH}", json={"content": "x"})
    run_id = client.post("/v1/host/runs", json={"workflowId": "acme.support"}).json()["runId"]
    if operation.name == "openwop_undo":
        started = {"workflowId": "memoranda.consolidation", "inputs": {"memoryRef": EXAMPLE_REF}}
        run_id = client.post("/v1/runs", json=started).json()["runId"]
    client.put("/v1/host/schedules", json={"memoryRef": EXAMPLE_REF, "cron": "0 3 * * *"})
    return {
        "mem_example": ids[1],
        EXAMPLE_RUN: run_id,
        "com_example": next(each["commitmentId"] for each in commitments if each["memoryId"] == ids[1]),
        "wh_example": client.post(
            "/v1/webhooks", json={"url": "https://hooks.example/openwop", "events": ["run.failed"]}
        ).json()["webhookId"]
        if operation.name.endswith("_unregister")
        else "",
        "prop_example": client.post("/v1/host/sample/proposals", json=EXAMPLE_PROPOSAL).json()["id"],
    }


QUERY_BODIES = [
    (operation, media_type, content["example"])
    for operation in OPERATIONS
    for media_type, content in operation.takes.items()
    if "example" in content
]


@pytest.mark.parametrize(("operation", "media_type", "example"), QUERY_BODIES)
def test_the_examples_in_the_other_forms_of_a_query_run(
    server: Running, operation: Operation, media_type: str, example: object
) -> None:
    content = example.encode() if isinstance(example, str) else json.dumps(example).encode()
    with server.client() as client:
        seed(client)
        params = {"namespace": "kitchen"}
        answer = client.post(operation.path, content=content, params=params, headers={"content-type": media_type})
        assert answer.status_code == 200, answer.text
        if operation.answer:
            check(answer.json(), operation.answer)


def prepared(client: httpx.Client) -> str:
    """A token to execute."""
    return str(client.post("/cal/prepare", json={"query": "RECALL beliefs"}).json()["token"])


def seed(client: httpx.Client) -> dict[str, str]:
    """The memories and the grain that the examples speak of; there already after the first time."""
    record = {**draft("run pnpm gate before handoff", owner=EXAMPLE_OWNER), "id": EXAMPLE_ID}
    client.post("/ump/remember", json=record)
    assert client.post("/oms/grains", json=EXAMPLE_GRAIN).json()["address"] == EXAMPLE_ADDRESS
    memory = {**EXAMPLE_MEMORY, "namespace": EXAMPLE_NAMESPACE, "key": EXAMPLE_KEY}
    assert client.post("/v1/oams/memories/batch", json={"memories": [memory]}).status_code == 200
    client.post("/cal", json={"query": "DEFINE TEMPLATE brief ELEMENT { {{grain.object}} }"})
    return {}


def dreamt(client: httpx.Client) -> dict[str, str]:
    """The pass that is to be undone."""
    ports = [{"namespace": EXAMPLE_NAMESPACE, "key": f"port {n}", "value": f"The port is 808{n}."} for n in (1, 2)]
    assert client.post("/v1/oams/memories/batch", json={"memories": ports}).status_code == 200
    asked = {"namespace": EXAMPLE_NAMESPACE, "strategy": "validate"}
    return {EXAMPLE_DREAM: client.post("/v1/oams/dreams", json=asked).json()["run_id"]}


def test_errors_of_cal_are_as_described(client: httpx.Client) -> None:
    answers = (
        client.post("/cal", json={"query": "RECALL facts"}),
        client.post("/cal/execute", json={"token": "calprep.x"}),
        client.post("/cal/stream", json={"query": "RECALL beliefs"}),
    )
    for answer, status in zip(answers, (400, 403, 501), strict=True):
        check(answer.json(), "CalError")
        assert (answer.status_code, f"cal{status}" in DOCUMENT["components"]["responses"]) == (status, True)


def test_errors_of_oams_are_as_described(server: Running, client: httpx.Client) -> None:
    memory = "/v1/oams/memories/user-x%3Ay/k"
    with server.client("") as nobody:
        answers = {
            400: client.put(memory, content=b"{"),
            401: nobody.get(memory),
            403: client.post("/v1/oams/recall", json={"query": "x", "namespaces": ["a:x", "b:x"]}),
            404: client.get(memory),
            405: client.post(memory),
            412: client.put(memory, json={"value": "x"}, headers={"if-match": "*"}),
            413: client.put(memory, json={"value": "x" * 1_100_000}),
            422: client.put(memory, json={}),
        }
        rpc = [nobody.post("/v1/oams/rpc", json={}), client.get("/v1/oams/rpc")]
    for status, answer in answers.items():
        check(answer.json(), "OamsError")
        # A wrong method is not an answer of any operation.
        is_described = status == 405 or f"oams{status}" in DOCUMENT["components"]["responses"]
        assert (answer.status_code, is_described) == (status, True)
    for answer in rpc:
        check(answer.json(), "OamsError")
        check(answer.json(), "OamsReplies")


@pytest.mark.requirement("UMP-3-error-envelope")
def test_errors_are_as_described(client: httpx.Client) -> None:
    for answer in (client.get("/nothing"), client.post("/ump/recall"), client.get("/healthz", headers={"host": "x"})):
        check(answer.json(), "Error")
        assert str(answer.status_code) in DOCUMENT["components"]["responses"]


def test_the_types_and_routes_of_the_typescript_client_are_those_of_the_table() -> None:
    folder = Path(__file__).parents[3] / "clients" / "typescript"
    spec = spec_from_file_location("generate", folder / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = module_from_spec(spec)
    spec.loader.exec_module(generate)
    for file, text in generate.generate().items():
        assert text == (folder / "src" / file).read_text(encoding="utf-8"), "run make generate"
