"""One scenario of OMS, of OAMS and of openwop, every way in: library, HTTP, JSON-RPC or MCP, command line."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests import forking
from tests.bindings.test_parity import BELIEF, MEMORANDA, OWNER, served
from tests.commands import command
from tests.embedders import WORDS_ALONE
from tests.waiting import HANG_SECONDS

from memoranda import Memoranda
from memoranda.errors import MemorandaError
from memoranda.standards.oams import requests as oams
from memoranda.standards.oms import requests as oms
from memoranda.standards.openwop.entry import Draft, ListOptions

# An operation and what it is asked in; its answer, or None where it was refused, out.
Call = Callable[[str, dict[str, Any]], Awaitable[Any]]
Way = Callable[[Path], Any]
Verbs = dict[str, Callable[[Memoranda, dict[str, Any]], Any]]

REF = "agents/ada"
SCOPE = "personal"


def plain(value: Any, names: dict[str, str]) -> Any:
    """The same for every run: ids by their order, instants and scores taken out."""
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key not in ("score", "etag", "system_valid_to")}
        return {key: plain(item, names) for key, item in sorted(kept.items())}
    if isinstance(value, list | tuple):
        return [plain(item, names) for item in value]
    if isinstance(value, str) and re.fullmatch(r"mem_\w+", value):
        return names.setdefault(value, f"id {len(names) + 1}")
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", value):
        return "an instant"
    return value


@asynccontextmanager
async def library(home: Path, verbs: Verbs) -> AsyncIterator[Call]:
    with Memoranda.open(home, owner=OWNER) as m:

        async def call(operation: str, body: dict[str, Any]) -> Any:
            try:
                return verbs[operation](m, body)
            except MemorandaError:
                return None

        yield call


@asynccontextmanager
async def over_http(home: Path, request: Callable[[str, dict[str, Any]], dict[str, Any]]) -> AsyncIterator[Call]:
    async with served(home) as (url, bearer):
        headers = {"Authorization": f"Bearer {bearer}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=HANG_SECONDS) as client:

            async def call(operation: str, body: dict[str, Any]) -> Any:
                answer = await client.request(**request(operation, body))
                document = answer.json() if answer.content else {}
                is_refused = not answer.is_success or (isinstance(document, dict) and "error" in document)
                return None if is_refused else document

            yield call


@asynccontextmanager
async def command_line(home: Path, words: Callable[[str, dict[str, Any]], list[str]]) -> AsyncIterator[Call]:
    async def call(operation: str, body: dict[str, Any]) -> Any:
        given = json.dumps(body.get("grain")).encode()
        done = command("--data", str(home), "--owner", OWNER, "--json", *words(operation, body), piped=given)
        return json.loads(done.out) if done.code == 0 else None

    yield call


async def transcript(scenario: Callable[[Call], Awaitable[list[Any]]], way: Any, home: Path) -> list[Any]:
    async with way(home) as call:
        return list(plain(await scenario(call), {}))


def compare(scenario: Callable[[Call], Awaitable[list[Any]]], ways: dict[str, Any], tmp_path: Path) -> list[Any]:
    """What the first way says, after all the others said the same."""
    names = iter(ways.items())
    first, way = next(names)
    expected = anyio.run(transcript, scenario, way, tmp_path / first)
    for name, other in names:
        assert anyio.run(transcript, scenario, other, tmp_path / name) == expected, name
    return expected


# --- OMS ---------------------------------------------------------------------------------------------------

LATER = {**BELIEF, "object": "black coffee", "created_at": 1768557600000}


async def grains(call: Call) -> list[Any]:
    said: list[Any] = []

    async def ask(operation: str, **body: Any) -> Any:
        answer = await call(operation, body)
        shown = ("address", "result", "grain", "index", "held", "native", "results")
        said.append(answer and {name: answer[name] for name in shown if name in answer})
        return answer

    address = (await ask("put", grain=BELIEF))["address"]
    await ask("put", grain=BELIEF)
    await ask("get", address=address)
    await ask("find", subject="ada", limit=5)
    await ask("find", text="green tea", namespace="kitchen")
    await ask("supersede", address=address, grain=LATER)
    await ask("get", address=address)
    await ask("find", subject="ada")
    await ask("find", subject="ada", limit=0)
    await ask("get", address="abc")
    await ask("put", grain={**BELIEF, "confidence": 2})
    await ask("supersede", address=address, grain=BELIEF)
    return said


GRAIN_VERBS: Verbs = {
    "put": lambda m, b: vars_of(m.service.grains.put(m.access, b["grain"])),
    "get": lambda m, b: m.service.grains.get(m.access, b["address"]).document(),
    "find": lambda m, b: m.service.grains.find(m.access, oms.FindRequest.parse(b)).document(),
    "supersede": lambda m, b: vars_of(m.service.grains.supersede(m.access, b["address"], b["grain"])),
}


def vars_of(value: Any) -> dict[str, Any]:
    names = getattr(value, "__struct_fields__", None) or value.__dataclass_fields__
    return {name: getattr(value, name) for name in names}


def grain_request(operation: str, body: dict[str, Any]) -> dict[str, Any]:
    if operation == "get":
        return {"method": "GET", "url": f"/oms/grains/{body['address']}"}
    if operation == "find":
        return {"method": "POST", "url": "/oms/grains/search", "json": body}
    path = "/oms/grains" if operation == "put" else f"/oms/grains/{body['address']}/supersede"
    return {"method": "POST", "url": path, "json": body["grain"]}


def grain_words(operation: str, body: dict[str, Any]) -> list[str]:
    if operation == "find":
        return ["oms", "find", *(word for name, value in body.items() for word in (f"--{name}", str(value)))]
    words = ["oms", operation, *([body["address"]] if "address" in body else [])]
    return [*words, *(["-"] if "grain" in body else [])]


@asynccontextmanager
async def tools(home: Path, prefix: str) -> AsyncIterator[Call]:
    arguments = [*MEMORANDA[1:], "--data", str(home), "--owner", OWNER, "mcp"]
    transport = stdio_client(StdioServerParameters(command=forking.python(), args=arguments, env=WORDS_ALONE))
    async with Client(transport, read_timeout_seconds=HANG_SECONDS) as client:

        async def call(operation: str, body: dict[str, Any]) -> Any:
            answer = await client.call_tool(f"{prefix}.{operation}", body)
            return None if answer.is_error else answer.structured_content

        yield call


GRAIN_WAYS: dict[str, Way] = {
    "library": lambda home: library(home, GRAIN_VERBS),
    "HTTP": lambda home: over_http(home, grain_request),
    "MCP": lambda home: tools(home, "oms"),
    "command line": lambda home: command_line(home, grain_words),
}


def test_one_scenario_of_grains_over_every_binding(tmp_path: Path) -> None:
    said = compare(grains, GRAIN_WAYS, tmp_path)
    assert [answer is None for answer in said] == [False] * 8 + [True] * 4


# --- OAMS --------------------------------------------------------------------------------------------------


async def memories(call: Call) -> list[Any]:
    said: list[Any] = []

    async def ask(operation: str, **body: Any) -> None:
        answer = await call(operation, body)
        # The command line says beside the memory what REST says in headers.
        if isinstance(answer, dict):
            answer = answer.get("memory", answer.get("memories", answer if "value" in answer else "done"))
        said.append(answer)

    await ask("store", key="k/1", value="Ada drinks green tea", tags=["tea"])
    await ask("store", key="k/1", value="Ada drinks black tea", tags=["tea"])
    await ask("store", key="k2", value="The kettle is broken", tags=["kitchen"])
    await ask("get", key="k/1")
    await ask("list")
    await ask("list", tags=["tea"])
    await ask("recall", query="what does Ada drink?", tags=["tea"], k=3)
    await ask("forget", key="k/1")
    await ask("list")
    await ask("get", key="k/1")
    await ask("recall", query="tea", k=0)
    await ask("list", limit=0)
    return said


def place(m: Memoranda) -> str:
    return str(m.service.oams.namespace(m.access, SCOPE))


def _forgotten(m: Memoranda, body: dict[str, Any]) -> dict[str, Any]:
    request = oams.ForgetRequest.parse({**body, "namespace": place(m)})
    m.service.oams.forget(m.access, request.namespace, request.key)
    return {}


MEMORY_VERBS: Verbs = {
    "store": lambda m, b: m.service.oams.store(m.access, {**b, "namespace": place(m)}).memory,
    "get": lambda m, b: m.service.oams.get(m.access, m.service.oams.namespace(m.access, SCOPE), b["key"]).memory,
    "list": lambda m, b: (
        m.service.oams.list_memories(m.access, oams.ListRequest.parse({**b, "namespace": place(m)})).memories
    ),
    "recall": lambda m, b: m.service.oams.recall(m.access, oams.RecallRequest.parse({**b, "namespace": place(m)})),
    "forget": _forgotten,
}


def memory_request(namespace: str, operation: str, body: dict[str, Any]) -> dict[str, Any]:
    root = f"/v1/oams/memories/{quote(namespace, safe='')}"
    if operation == "list":
        tags = {"tags": ",".join(body["tags"])} if "tags" in body else {}
        return {"method": "GET", "url": root, "params": {**body, **tags}}
    if operation == "recall":
        return {"method": "POST", "url": "/v1/oams/recall", "json": {**body, "namespace": namespace}}
    method = {"store": "PUT", "get": "GET", "forget": "DELETE"}[operation]
    sent = {"json": body} if operation == "store" else {}
    return {"method": method, "url": f"{root}/{quote(body['key'], safe='')}", **sent}


def memory_rpc(namespace: str, operation: str, body: dict[str, Any]) -> dict[str, Any]:
    named = {**body, "namespace": namespace}
    params = {"memory": named} if operation == "store" else named
    call = {"jsonrpc": "2.0", "id": 1, "method": f"oams.{operation}", "params": params}
    return {"method": "POST", "url": "/v1/oams/rpc", "json": call}


def memory_words(operation: str, body: dict[str, Any]) -> list[str]:
    given = [body[name] for name in ("key", "value", "query") if name in body]
    tags = [word for tag in body.get("tags", ()) for word in ("--tag", tag)]
    numbers = [word for name in ("k", "limit") if name in body for word in ("--limit", str(body[name]))]
    return ["oams", operation, *given, "--namespace", SCOPE, *tags, *numbers]


@asynccontextmanager
async def by_rpc(home: Path, namespace: str) -> AsyncIterator[Call]:
    async with over_http(home, lambda operation, body: memory_rpc(namespace, operation, body)) as ask:

        async def call(operation: str, body: dict[str, Any]) -> Any:
            answer = await ask(operation, body)
            if answer is None:
                return None
            return {} if answer["result"] is None else answer["result"]

        yield call


def namespace_in(home: Path) -> str:
    with Memoranda.open(home, owner=OWNER) as m:
        return place(m)


def memory_ways(namespace: str) -> dict[str, Way]:
    return {
        "library": lambda home: library(home, MEMORY_VERBS),
        "REST": lambda home: over_http(home, lambda name, body: memory_request(namespace, name, body)),
        "JSON-RPC": lambda home: by_rpc(home, namespace),
        "command line": lambda home: command_line(home, memory_words),
    }


def test_one_scenario_of_memories_over_every_binding(tmp_path: Path) -> None:
    said = compare(memories, memory_ways(namespace_in(tmp_path / "any")), tmp_path)
    assert [answer is None for answer in said] == [False] * 9 + [True] * 3


# --- consolidation -----------------------------------------------------------------------------------------


async def dreams(call: Call) -> list[Any]:
    said: list[Any] = []

    async def ask(operation: str, **body: Any) -> Any:
        said.append(await call(operation, body))
        return said[-1]

    await ask("consolidate", strategy="validate", dry_run=True)
    run = await ask("consolidate", strategy="validate")
    await ask("consolidate", strategy="validate", limit=5)
    await ask("dreams")
    await ask("undo_dream", run_id=run["run_id"])
    await ask("dreams")
    await ask("undo_dream", run_id=run["run_id"])
    await ask("consolidate", strategy="guess")
    await ask("consolidate", strategy="validate", limit=0)
    return said


def _dream(m: Memoranda, body: dict[str, Any]) -> dict[str, Any]:
    return m.service.oams.dream(m.access, oams.DreamRequest.parse({**body, "namespace": place(m)})).document()


DREAM_VERBS: Verbs = {
    "consolidate": _dream,
    "dreams": lambda m, _: {"runs": m.service.oams.dream_runs(m.access)},
    "undo_dream": lambda m, b: m.service.oams.undo(m.access, b["run_id"]).document(),
}


def dream_request(namespace: str, operation: str, body: dict[str, Any]) -> dict[str, Any]:
    if operation == "consolidate":
        return {"method": "POST", "url": "/v1/oams/dreams", "json": {**body, "namespace": namespace}}
    if operation == "dreams":
        return {"method": "GET", "url": "/v1/oams/dreams"}
    return {"method": "DELETE", "url": f"/v1/oams/dreams/{body['run_id']}"}


@asynccontextmanager
async def named(way: Any, namespace: str) -> AsyncIterator[Call]:
    """Only a pass is over a namespace."""
    async with way as ask:

        async def call(operation: str, body: dict[str, Any]) -> Any:
            return await ask(operation, {**body, "namespace": namespace} if operation == "consolidate" else body)

        yield call


def dream_rpc(operation: str, body: dict[str, Any]) -> dict[str, Any]:
    call = {"jsonrpc": "2.0", "id": 1, "method": f"oams.{operation}", "params": body}
    return {"method": "POST", "url": "/v1/oams/rpc", "json": call}


@asynccontextmanager
async def dream_calls(home: Path) -> AsyncIterator[Call]:
    async with over_http(home, dream_rpc) as ask:

        async def call(operation: str, body: dict[str, Any]) -> Any:
            answer = await ask(operation, body)
            return None if answer is None else answer["result"]

        yield call


def dream_words(operation: str, body: dict[str, Any]) -> list[str]:
    if operation != "consolidate":
        return ["consolidate", *(["runs"] if operation == "dreams" else ["undo", body["run_id"]])]
    limit = ["--limit", str(body["limit"])] if "limit" in body else []
    how = "--dry-run" if body.get("dry_run") else "--yes"
    return ["consolidate", "--strategy", body["strategy"], "--namespace", SCOPE, how, *limit]


@asynccontextmanager
async def dream_commands(home: Path) -> AsyncIterator[Call]:
    async with command_line(home, dream_words) as ask:

        async def call(operation: str, body: dict[str, Any]) -> Any:
            answer = await ask(operation, body)
            # The command line runs several strategies at once.
            return answer["runs"][0] if answer is not None and operation == "consolidate" else answer

        yield call


@asynccontextmanager
async def filled(home: Path, way: Any) -> AsyncIterator[Call]:
    with Memoranda.open(home, owner=OWNER) as m:
        for key, day, value in (("then", "02", "The port is 8080."), ("now", "03", "The port is 9090.")):
            sent = {"key": key, "value": value, "namespace": place(m), "created_at": f"2026-01-{day}T09:00:00.000Z"}
            m.service.oams.store(m.access, sent)
    async with way(home) as call:
        yield call


def dream_ways(namespace: str) -> dict[str, Way]:
    ways: dict[str, Way] = {
        "library": lambda home: library(home, DREAM_VERBS),
        "REST": lambda home: over_http(home, lambda name, body: dream_request(namespace, name, body)),
        "JSON-RPC": lambda home: named(dream_calls(home), namespace),
        "MCP": lambda home: named(tools(home, "oams"), namespace),
        "command line": dream_commands,
    }
    return {name: lambda home, way=way: filled(home, way) for name, way in ways.items()}  # type: ignore[misc]


def test_one_scenario_of_consolidation_over_every_binding(tmp_path: Path) -> None:
    said = compare(dreams, dream_ways(namespace_in(tmp_path / "any")), tmp_path)
    assert [answer is None for answer in said] == [False] * 6 + [True] * 3
    assert [answer["written"] for answer in said[:3]] == [1, 1, 0]
    assert [len(answer["runs"]) for answer in (said[3], said[5])] == [1, 0]


# --- openwop -----------------------------------------------------------------------------------------------


async def entries(call: Call) -> list[Any]:
    said: list[Any] = []

    async def ask(operation: str, **body: Any) -> Any:
        answer = await call(operation, body)
        said.append("done" if operation == "delete" and answer is not None else answer)
        return answer

    first = (await ask("put", content="Invoices go out by mail.", tags=["subject:acme"]))["id"]
    await ask("put", content="Deployments go out on Tuesdays.", tags=[], expiresAt="2999-01-01T00:00:00.000Z")
    await ask("get", id=first)
    await ask("list", tag="subject:acme")
    await ask("put", content="Ann likes tea.", tags=["Likes"], id="ann")
    await ask("put", content="Ann likes coffee.", tags=[], id="ann")
    await ask("get", id="ann")
    await ask("delete", id=first)
    await ask("list")
    await ask("get", id=first)
    await ask("list", limit=-1)
    await ask("list", limit=1, query="invoices", rank="relevance")
    await ask("put", content="x", expiresAt="yesterday")
    return said


def _entry(m: Memoranda, body: dict[str, Any]) -> Any:
    return m.service.openwop.get_entry(m.access, REF, body["id"])


def _put(m: Memoranda, body: dict[str, Any]) -> Any:
    draft = Draft.parse({name: value for name, value in body.items() if name != "id"})
    return m.service.openwop.put_entry(m.access, REF, draft, entry_id=body.get("id"))


ENTRY_VERBS: Verbs = {
    "put": _put,
    "get": _entry,
    "list": lambda m, b: {"entries": m.service.openwop.list_entries(m.access, REF, ListOptions.parse(b))},
    "delete": lambda m, b: m.service.openwop.delete_entry(m.access, REF, b["id"]) or None,
}


def entry_request(operation: str, body: dict[str, Any]) -> dict[str, Any]:
    root = f"/v1/memory/{quote(REF, safe='')}"
    if operation == "put" and "id" in body:
        said = {name: value for name, value in body.items() if name != "id"}
        return {"method": "PUT", "url": f"{root}/{body['id']}", "json": said}
    if operation == "put":
        return {"method": "POST", "url": root, "json": body}
    if operation == "list":
        return {"method": "GET", "url": root, "params": body}
    return {"method": "GET" if operation == "get" else "DELETE", "url": f"{root}/{body['id']}"}


def entry_words(operation: str, body: dict[str, Any]) -> list[str]:
    options = {"tag": "--tag", "limit": "--limit", "query": "--query"}
    options["expiresAt"] = "--expires"
    if operation == "put":
        options["id"] = "--id"
    given = [body[name] for name in ("content", "id") if name in body and name not in options]
    tags = [word for tag in body.get("tags", ()) for word in ("--tag", tag)]
    more = [word for name, option in options.items() if name in body for word in (option, str(body[name]))]
    return ["openwop", operation, REF, *given, *tags, *more]


ENTRY_WAYS: dict[str, Way] = {
    "library": lambda home: library(home, ENTRY_VERBS),
    "HTTP": lambda home: over_http(home, entry_request),
    "command line": lambda home: command_line(home, entry_words),
}


def test_one_scenario_of_entries_over_every_binding(tmp_path: Path) -> None:
    said = compare(entries, ENTRY_WAYS, tmp_path)
    assert [answer is None for answer in said] == [False] * 9 + [True] * 4
