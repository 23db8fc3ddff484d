"""Streams over HTTP, whatever was written in any way: they tell those who may hear it, and nothing that was erased."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import httpx
import pytest

from memoranda.bindings.http.app import create_app
from memoranda.bindings.http.server import create_server, listen
from tests.bindings.http.running import NO_AUTHORITIES
from tests.matrix.doors import SPACE, WRITES, House, texts
from tests.matrix.test_bounds import REDACTS
from tests.service.world import PEER
from tests.waiting import HANG_SECONDS

MARK: Final = "the last of it"


@contextmanager
def served(house: House) -> Iterator[str]:
    """The store of a house behind a real server."""
    ready = threading.Event()
    server = create_server(create_app(house.service), listen("127.0.0.1", 0), on_ready=lambda _: ready.set())
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert ready.wait(HANG_SECONDS)
        yield server.base_url
    finally:
        server.should_exit = True
        thread.join(HANG_SECONDS)
        assert not thread.is_alive()


def bearer(house: House, audience: str | None = None, **scope: str) -> str:
    limits = {"owner": house.tenant, **scope}
    return house.service.gate.mint_token(verbs=("read", "export"), scope=limits, ttl_ms=600_000, audience=audience)


def subscribed(url: str, credential: str) -> str:
    """Everything that a subscriber from the beginning is told, until the mark."""
    headers = {"authorization": f"Bearer {credential}", "last-event-id": "0"}
    with (
        httpx.Client(base_url=url, verify=NO_AUTHORITIES, timeout=HANG_SECONDS) as client,
        client.stream("GET", "/ump/subscribe", headers=headers) as stream,
    ):
        assert stream.status_code == 200, stream.read()
        found = []
        for line in stream.iter_lines():
            if line.startswith("data:"):
                found.append(" ".join(texts(json.loads(line.removeprefix("data:")))))
                if MARK in found[-1]:
                    return " ".join(found)
    raise AssertionError("the stream ended before the mark")


def assembled(url: str, credential: str) -> str:
    """Everything that a streamed ASSEMBLE tells."""
    asked = {
        "query": 'ASSEMBLE FOR "matrix" FROM (RECALL RECENT 50) BUDGET 4000 tokens STREAM { all }',
        "namespace": SPACE,
    }
    answer = httpx.post(
        f"{url}/cal/stream",
        json=asked,
        headers={"authorization": f"Bearer {credential}"},
        verify=NO_AUTHORITIES,
        timeout=HANG_SECONDS,
    )
    return answer.text if answer.status_code == 200 else ""


def events(url: str, credential: str) -> str:
    """The log of all runs, which tells that something happened and never what was said."""
    headers = {"authorization": f"Bearer {credential}", "accept": "application/json"}
    return httpx.get(f"{url}/v1/host/events", headers=headers, verify=NO_AUTHORITIES, timeout=HANG_SECONDS).text


def mark(house: House) -> None:
    """Something that every reader may hear of, at the end."""
    for project in (SPACE, "elsewhere"):
        house.remember(f"{MARK} in {project}", scope={"project": project, "visibility": "shared"})


@pytest.mark.parametrize("way", WRITES)
def test_a_stream_tells_its_own_readers_and_nothing_that_was_erased(house: House, way: str) -> None:
    readers: Mapping[str, str] = {
        "owner": bearer(house),
        "here": bearer(house, project=SPACE),
        "elsewhere": bearer(house, project="elsewhere"),
        "peer": bearer(house, PEER.did),
    }
    WRITES[way](house, "zanzibar")
    names = house.names(house.head("zanzibar"))
    mark(house)
    with served(house) as url:
        told = {name: "zanzibar" in subscribed(url, credential) for name, credential in readers.items()}
        assert told == {"owner": True, "here": True, "elsewhere": False, "peer": False}
        told = {name: "zanzibar" in assembled(url, credential) for name, credential in readers.items()}
        assert told == {"owner": True, "here": True, "elsewhere": False, "peer": False}
        assert "zanzibar" not in events(url, readers["owner"])
        house.forget(names["ump"], hard=True, reason="asked")
        for name, credential in readers.items():
            assert "zanzibar" not in subscribed(url, credential), name
            assert "zanzibar" not in assembled(url, credential), name


@pytest.mark.requirement("OURS-redact-fails-closed")
@pytest.mark.parametrize("way", REDACTS)
def test_what_is_redacted_is_in_no_stream_of_others(house: House, way: str) -> None:
    REDACTS[way](house, "body.structured.token")
    mark(house)
    with served(house) as url:
        assert "s3cret" in subscribed(url, bearer(house))
        peer = bearer(house, PEER.did)
        assert "s3cret" not in subscribed(url, peer)
        assert "s3cret" not in assembled(url, peer)


def test_a_redacted_scope_cannot_be_guessed_by_subscribing(house: House) -> None:
    scope = {"visibility": "shared", "project": "right"}
    house.remember("apple", scope=scope, consent={"redact": ["scope.project"]})
    peer, own = house.token("read", audience=PEER.did), house.owner
    for project in ("right", "wrong"):
        assert house.service.changes(peer, {"project": project}, 0).events == (), project
    assert len(house.service.changes(peer, {}, 0).events) == 1
    assert len(house.service.changes(own, {"project": "right"}, 0).events) == 1
