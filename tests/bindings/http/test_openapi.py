"""The OpenAPI document: it lists exactly the routes, and what it says is so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from tests.bindings.http.running import Running, draft

from memoranda.app import open_service
from memoranda.bindings.http.app import create_app
from memoranda.bindings.http.oms_openapi import EXAMPLE_ADDRESS, EXAMPLE_GRAIN
from memoranda.bindings.http.openapi import EXAMPLE_ID, EXAMPLE_OWNER, OPERATIONS, document
from memoranda.bindings.http.operation import Operation
from memoranda.settings import load_settings

DOCUMENT = document(server_version="0")
REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "http.md"


def check(value: object, schema: str) -> None:
    whole = {"$ref": f"#/components/schemas/{schema}", "components": DOCUMENT["components"]}
    jsonschema_rs.validate(whole, value)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Starlette]:
    service = open_service(load_settings({}, home=tmp_path / "home"))
    yield create_app(service)
    service.close()


@pytest.mark.requirement("UMP-4.2-routes")
def test_the_document_lists_exactly_the_routes(app: Starlette) -> None:
    routes = {
        (method.lower(), route.path)
        for route in app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    described = {(method, path) for path, item in DOCUMENT["paths"].items() for method in item}
    assert described == routes


def test_the_reference_page_names_every_route() -> None:
    text = REFERENCE.read_text("utf-8")
    missing = [
        f"{each.method.upper()} {each.path}"
        for each in OPERATIONS
        if f"`{each.method.upper()} {each.path}`" not in text
    ]
    assert missing == []


def test_the_document_is_what_the_server_gives(client: httpx.Client) -> None:
    given = client.get("/openapi.json").json()
    assert given["paths"] == DOCUMENT["paths"]
    assert given["openapi"] == "3.1.0"


def test_every_schema_is_one() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert jsonschema_rs.meta.is_valid(schema), name


# A stream can only be cancelled while it runs: test_cal_stream.py does that.
RUNNABLE = [operation for operation in OPERATIONS if operation.name != "cal_cancel"]


@pytest.mark.parametrize("operation", RUNNABLE, ids=lambda operation: str(operation.name))
def test_the_example_runs_and_its_answer_is_as_described(server: Running, operation: Operation) -> None:
    with server.client() as client:
        seed(client)
        if operation.asks is not None:
            check(operation.example, operation.asks)
        path = operation.path.replace("{id}", EXAMPLE_ID.replace(":", "%3A")).replace("{address}", EXAMPLE_ADDRESS)
        params = {
            each["name"]: each["example"]
            for each in operation.parameters
            if each["in"] == "query" and "example" in each
        }
        example = {"token": prepared(client)} if operation.name == "cal_execute" else operation.example
        body: dict[str, Any] = {"json": example} if operation.asks else {}
        with client.stream(operation.method, path, params=params, **body) as answer:
            assert answer.status_code == 200
            if operation.answer:
                answer.read()
                check(answer.json(), operation.answer)
            else:
                media_type = answer.headers["content-type"].partition(";")[0]
                assert media_type == next(iter(operation.also_gives), "text/event-stream")


QUERY_BODIES = [
    (operation, media_type, content["example"])
    for operation in OPERATIONS
    for media_type, content in operation.also_takes.items()
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


def seed(client: httpx.Client) -> None:
    """The memory and the grain that the examples speak of; there already after the first time."""
    record = {**draft("run pnpm gate before handoff", owner=EXAMPLE_OWNER), "id": EXAMPLE_ID}
    client.post("/ump/remember", json=record)
    assert client.post("/oms/grains", json=EXAMPLE_GRAIN).json()["address"] == EXAMPLE_ADDRESS


def test_errors_of_cal_are_as_described(client: httpx.Client) -> None:
    answers = (
        client.post("/cal", json={"query": "RECALL facts"}),
        client.post("/cal/execute", json={"token": "calprep.x"}),
        client.post("/cal/stream", json={"query": "RECALL beliefs"}),
    )
    for answer, status in zip(answers, (400, 403, 501), strict=True):
        check(answer.json(), "CalError")
        assert (answer.status_code, f"cal{status}" in DOCUMENT["components"]["responses"]) == (status, True)


@pytest.mark.requirement("UMP-3-error-envelope")
def test_errors_are_as_described(client: httpx.Client) -> None:
    for answer in (client.get("/nothing"), client.post("/ump/recall"), client.get("/healthz", headers={"host": "x"})):
        check(answer.json(), "Error")
        assert str(answer.status_code) in DOCUMENT["components"]["responses"]
