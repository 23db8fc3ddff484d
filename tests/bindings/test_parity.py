"""One scenario, six ways in: library, HTTP, MCP over stdio, MCP over HTTP, command line, files.

The first five give the same answers. All six leave the same memories behind.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import Implementation
from tests import forking
from tests.commands import command
from tests.embedders import WORDS_ALONE
from tests.storage.contract import everything
from tests.waiting import HANG_SECONDS

from memoranda import Memoranda
from memoranda.errors import MemorandaError, QueryError
from memoranda.model.memory import CLAIMED_KEY
from memoranda.standards.cal.problem import error_envelope
from memoranda.standards.ump import requests
from memoranda.standards.ump.markdown import parse
from memoranda.standards.ump.signature import verify

OWNER = "did:example:ada"
MEMORANDA = [sys.executable, "-m", "memoranda"]

# An operation of UMP and its request in; its answer, or its error, out.
Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


def draft(text: str, **fields: Any) -> dict[str, Any]:
    return {
        "kind": "procedural",
        "body": {"text": text},
        "scope": {"owner": OWNER, "project": "shop", "visibility": "private"},
        "provenance": {"actor": OWNER, "actor_kind": "user", "method": "said"},
        "lifecycle": {"salience": 0.8},
        "relations": [{"type": "about", "target": "entity:pnpm"}],
        **fields,
    }


async def scenario(call: Call, home: Path) -> list[Any]:
    """What was answered, and after each change what the store then held."""
    said: list[Any] = []

    async def ask(operation: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await call(operation, body)
        said.append((operation, plain(answer)))
        return answer

    here = {"project": "shop"}
    first = (await ask("remember", draft("use pnpm, never npm")))["id"]
    said.append(held(home))
    await ask("remember", draft("Use PNPM, never npm"))
    said.append(held(home))
    await ask("recall", {"query": "which package manager, pnpm?", "scope": here})
    # UMP's own examples: §3.3 remembers in a project, §3.2 asks in the project as an agent.
    as_agent = {"query": "package manager for this repo, pnpm?", "scope": {**here, "agent": "claude-code"}}
    assert len((await ask("recall", as_agent))["results"]) == 1
    assert (await ask("recall", {**as_agent, "filter": {"scope": "strict"}}))["results"] == []
    await ask("get", {"id": first})
    second = (await ask("revise", {"id": first, "patch": {"body": {"text": "use bun"}}}))["id"]
    said.append(held(home))
    await ask("get", {"id": first})
    await ask("recall", {"query": "pnpm or bun", "scope": here, "limit": 3})
    await ask("revise", {"id": first, "patch": {"body": {"text": "use yarn"}}})
    await ask("feedback", {"id": second, "outcome": "followed"})
    await ask("forget", {"id": second, "reason": "over"})
    said.append(held(home))
    await ask("recall", {"query": "bun", "scope": here})
    await ask("get", {"id": "urn:ump:zzzz"})
    await ask("feedback", {"id": second, "outcome": "applauded"})
    await ask("remember", draft("x", kind="vague"))
    await ask("recall", {"query": "  "})
    return said


def held(home: Path) -> list[Any]:
    """The memories themselves, read beside whoever serves them."""
    with Memoranda.open(home, owner=OWNER) as m:
        records = [entry.record for entry in m.history(next(iter(all_ids(m))))]
        return [plain(record) for record in records]


def all_ids(m: Memoranda) -> list[str]:
    context = m.service._context
    with context.engine.open_snapshot(OWNER) as snapshot:
        return [version.document.name for version in everything(snapshot)]


def plain(value: Any, names: dict[str, str] | None = None) -> Any:
    """The same for every run: ids by their order, instants, signatures and who said it taken out."""
    names = {} if names is None else names
    if isinstance(value, dict):
        left_out = ("integrity", "provenance", "message", "recency", "score", CLAIMED_KEY)
        kept = {k: v for k, v in value.items() if k not in left_out}
        shown = {key: plain(item, names) for key, item in sorted(kept.items())}
        if shown.get("structured") == {}:
            del shown["structured"]
        return {**shown, "verified": verify(value)} if "integrity" in value else shown
    if isinstance(value, list | tuple):
        return [plain(item, names) for item in value]
    if isinstance(value, str) and value.startswith("urn:ump:"):
        return names.setdefault(value, f"id {len(names) + 1}")
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", value):
        return "an instant"
    return value


# --- the six ways ----------------------------------------------------------------------------------------


@asynccontextmanager
async def by_library(home: Path) -> AsyncIterator[Call]:
    with Memoranda.open(home, owner=OWNER) as m:
        service, access = m.service, m.access

        def feedback(body: dict[str, Any]) -> dict[str, Any]:
            service.feedback(access, requests.FeedbackRequest.parse(body))
            return {"ok": True}

        verbs: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "remember": lambda b: vars_of(service.remember(access, b)),
            "recall": lambda b: {
                "results": [r.document() for r in service.recall(access, requests.RecallRequest.parse(b))]
            },
            "get": lambda b: {"record": m.get(b["id"]).record},
            "revise": lambda b: vars_of(service.revise(access, requests.ReviseRequest.parse(b))),
            "forget": lambda b: {"result": service.forget(access, requests.ForgetRequest.parse(b))},
            "feedback": feedback,
        }

        async def call(operation: str, body: dict[str, Any]) -> dict[str, Any]:
            try:
                return verbs[operation](body)
            except MemorandaError as error:
                return {"error": {"code": error.code, "message": error.message}}

        yield call


def vars_of(value: Any) -> dict[str, Any]:
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    # Left out of answers where it is empty.
    return {name: held for name, held in fields.items() if name != "similar" or held}


@asynccontextmanager
async def served(home: Path) -> AsyncIterator[tuple[str, str]]:
    """`memoranda serve` in a process of its own: its address, and a key for the owner."""
    tokens = ["--data", str(home), "--owner", OWNER, "--json", "serve", "--port", "0"]
    process = forking.Forked([*MEMORANDA, *tokens], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        announced = json.loads(process.stdout.readline())
        yield announced["url"], Path(announced["credential"]).read_text().strip()
    finally:
        process.terminate()
        assert process.wait(HANG_SECONDS) == 0
        process.stdout.close()


@asynccontextmanager
async def by_http(home: Path) -> AsyncIterator[Call]:
    async with served(home) as (url, bearer):
        headers = {"Authorization": f"Bearer {bearer}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=HANG_SECONDS) as client:

            async def call(operation: str, body: dict[str, Any]) -> dict[str, Any]:
                if operation == "get":
                    answer = await client.get(f"/ump/memory/{body['id']}")
                else:
                    answer = await client.post(f"/ump/{operation}", json=body)
                document: dict[str, Any] = answer.json()
                return document

            yield call


@asynccontextmanager
async def by_mcp_http(home: Path) -> AsyncIterator[Call]:
    async with served(home) as (url, bearer):
        headers = {"Authorization": f"Bearer {bearer}"}
        async with create_mcp_http_client(headers=headers) as http:
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
            async with Client(transport, read_timeout_seconds=HANG_SECONDS) as client:
                yield tool_calls(client)


@asynccontextmanager
async def by_mcp_stdio(home: Path) -> AsyncIterator[Call]:
    arguments = [*MEMORANDA[1:], "--data", str(home), "--owner", OWNER, "mcp"]
    transport = stdio_client(StdioServerParameters(command=forking.python(), args=arguments, env=WORDS_ALONE))
    # A memory is stored with the name of the agent, which no other way in states.
    nobody = Implementation(name="", version="1")
    async with Client(transport, read_timeout_seconds=HANG_SECONDS, client_info=nobody) as client:
        yield tool_calls(client)


def tool_calls(client: Client) -> Call:
    async def call(operation: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = (await client.call_tool(f"ump.{operation}", body)).structured_content
        assert isinstance(answer, dict)
        return answer

    return call


@asynccontextmanager
async def by_command_line(home: Path) -> AsyncIterator[Call]:
    def words_of(operation: str, body: dict[str, Any]) -> list[str]:
        if operation == "remember":
            scope, relations = body["scope"], body["relations"]
            options = ["--kind", body["kind"], "--project", scope["project"], "--visibility", scope["visibility"]]
            options += ["--salience", str(body["lifecycle"]["salience"]), "--about", relations[0]["target"]]
            return [body["body"]["text"], *options]
        if operation == "recall":
            scope = [word for name, value in body.get("scope", {}).items() for word in (f"--{name}", value)]
            limit = ["--limit", str(body["limit"])] if "limit" in body else []
            return [body["query"], *scope, *limit, *(["--strict"] if "filter" in body else [])]
        if operation == "revise":
            return [body["id"], body["patch"]["body"]["text"]]
        if operation == "forget":
            return [body["id"], "--reason", body["reason"]]
        return [body["id"], *([body["outcome"]] if operation == "feedback" else [])]

    async def call(operation: str, body: dict[str, Any]) -> dict[str, Any]:
        done = command("--data", str(home), "--owner", OWNER, "--json", operation, *words_of(operation, body))
        answer: dict[str, Any] = json.loads(done.out)
        assert (done.code == 0) == ("error" not in answer)
        # What is not among an option's choices is refused by the parser of the command line, as wrong usage.
        return {"error": {"code": "invalid_record"}} if done.code == 2 else answer

    yield call


WAYS = {
    "HTTP": by_http,
    "MCP over stdio": by_mcp_stdio,
    "MCP over HTTP": by_mcp_http,
    "command line": by_command_line,
}


async def transcript(way: Callable[[Path], Any], home: Path) -> list[Any]:
    async with way(home) as call:
        return await scenario(call, home)


@pytest.mark.requirement("UMP-7-one-behaviour")
def test_one_scenario_gives_one_answer_over_every_binding(tmp_path: Path) -> None:
    expected = anyio.run(transcript, by_library, tmp_path / "library")
    assert [step[1].get("error", {}).get("code") for step in expected if isinstance(step, tuple)] == [
        *[None] * 9,
        "invalid_record",
        *[None] * 3,
        "not_found",
        *["invalid_record"] * 3,
    ]
    for name, way in WAYS.items():
        assert anyio.run(transcript, way, tmp_path / name) == expected, name


BELIEF = {
    "type": "belief",
    "subject": "ada",
    "relation": "prefers",
    "object": "green tea",
    "confidence": 0.9,
    "created_at": 1768471200000,
    "namespace": "kitchen",
}
# What each asks is the same; what it answers is, too, except for how long it took.
QUERIES = ("RECALL beliefs AS markdown", "ASSEMBLE FROM known: (RECALL beliefs) FORMAT sml", "RECALL facts")


async def answers_by_http(home: Path) -> list[dict[str, Any]]:
    async with served(home) as (url, bearer):
        headers = {"Authorization": f"Bearer {bearer}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=HANG_SECONDS) as client:
            return [
                (await client.post("/cal", json={"query": text, "namespace": "kitchen"})).json() for text in QUERIES
            ]


async def answers_by_mcp(home: Path) -> list[dict[str, Any]]:
    arguments = [*MEMORANDA[1:], "--data", str(home), "--owner", OWNER, "mcp"]
    transport = stdio_client(StdioServerParameters(command=forking.python(), args=arguments, env=WORDS_ALONE))
    async with Client(transport, read_timeout_seconds=HANG_SECONDS) as client:
        results = [await client.call_tool("cal", {"query": text, "namespace": "kitchen"}) for text in QUERIES]
        return [dict(result.structured_content or {}) for result in results]


@pytest.mark.requirement("CAL-26-one-behaviour")
def test_one_query_gives_one_answer_over_every_binding(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path, owner=OWNER) as m:
        m.service.grains.put(m.access, BELIEF)
        expected = [asked(m, text) for text in QUERIES]
    for way in (answers_by_http, answers_by_mcp):
        answers = anyio.run(way, tmp_path)
        for answer in answers:
            answer.get("_cal", {}).pop("duration_ms", None)
        assert answers == ([for_model(each) for each in expected] if way is answers_by_mcp else expected), way


def for_model(answer: dict[str, Any]) -> dict[str, Any]:
    """What a model is told beside the one text that it asked for."""
    if "formatted" not in answer and "formatted_context" not in answer:
        return answer
    kept = {name: value for name, value in answer.items() if name not in ("results", "assembly")}
    if "assembly" in answer:
        kept["assembly"] = {name: answer["assembly"][name] for name in ("grain_count", "budget")}
    return kept


def asked(m: Memoranda, text: str) -> dict[str, Any]:
    try:
        answer = m.cal(text, namespace="kitchen")
    except QueryError as error:
        return dict(error_envelope(error))
    del answer["_cal"]["duration_ms"]
    return answer


@pytest.mark.requirement("UMP-7-one-behaviour")
def test_files_leave_the_same_memories_behind(tmp_path: Path) -> None:
    expected = anyio.run(transcript, by_library, tmp_path / "library")
    remembered, _, revised, forgotten = [step for step in expected if isinstance(step, list)]
    home, folder = tmp_path / "home", tmp_path / "notes"
    folder.mkdir()
    note = folder / "pnpm.ump.md"

    def sync() -> list[Any]:
        tokens = ("--data", str(home), "--owner", OWNER, "--json", "sync", str(folder), "--form", "records")
        assert command(*tokens).code == 0
        return held(home)

    front_matter = {key: value for key, value in draft("").items() if key != "body"}
    note.write_text(f"---\n{json.dumps(front_matter)}\n---\n\nuse pnpm, never npm\n", encoding="utf-8")
    assert sync() == remembered
    written = parse(note.read_text(encoding="utf-8"))
    assert verify(written)
    note.write_text(note.read_text(encoding="utf-8").replace("use pnpm, never npm", "use bun"), encoding="utf-8")
    assert sync() == without_merge(revised)
    note.unlink()
    assert sync() == without_merge(forgotten)


def without_merge(history: list[Any]) -> list[Any]:
    """The history without the second telling, which a folder of one file does not have."""
    return [dict(record, lifecycle={**record["lifecycle"], "confidence": 0.6}) for record in history[1:]]
