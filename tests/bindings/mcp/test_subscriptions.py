"""Change notifications, in both eras, about what any process wrote."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent, Subscription
from mcp.shared.exceptions import MCPError
from tests.bindings.mcp.peers import HttpPeer, Inbox, http_client, http_peer, run, stdio_peer, store

from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.standards.ump.requests import ForgetRequest, ReviseRequest

UPDATED, LIST_CHANGED = "notifications/resources/updated", "notifications/resources/list_changed"


def remember(service: Service, access: Access, text: str, project: str | None = "p") -> str:
    draft: dict[str, Any] = {"kind": "semantic", "body": {"text": text}}
    if project is not None:
        draft["scope"] = {"project": project}
    return service.remember(access, service.with_defaults(access, draft, method="test")).id


async def subscribe(client: Client, uri: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the method is gone in the newest version, and that is the point
        await client.subscribe_resource(uri)


async def next_event(subscription: Subscription) -> ServerEvent:
    async for event in subscription:
        return event
    raise AssertionError("the stream ended")


@asynccontextmanager
async def writing_until_done(write: Callable[[int], object]) -> AsyncIterator[None]:
    """Write again and again: a session's stream may open only after its subscription was accepted."""

    async def again() -> None:
        number = 0
        while True:
            await anyio.to_thread.run_sync(write, number)
            number += 1
            await anyio.sleep(0.05)

    async with anyio.create_task_group() as group:
        group.start_soon(again)
        yield
        group.cancel_scope.cancel()


def test_a_listener_hears_of_its_project_and_its_memory_and_nothing_else(peer: HttpPeer, owner: str) -> None:
    access = peer.service.gate.local(owner)
    name = remember(peer.service, access, "one")

    async def scenario() -> None:
        uris = [f"ump://p/{name}", "ump://p/", "ump://_/"]
        async with http_client(peer.url, peer.key(owner)) as client:
            async with client.listen(resource_subscriptions=uris) as heard:
                assert heard.honored is not None
                assert heard.honored.resource_subscriptions == uris
                remember(peer.service, access, "another project", "q")
                remember(peer.service, access, "no project", None)
                assert await next_event(heard) == ResourceUpdated(uri="ump://_/")
                second = peer.service.revise(
                    access, ReviseRequest.parse({"id": name, "patch": {"body": {"text": "2"}}})
                )
                assert {await next_event(heard), await next_event(heard)} == {
                    ResourceUpdated(uri="ump://p/"),
                    ResourceUpdated(uri=f"ump://p/{name}"),
                }
                peer.service.forget(access, ForgetRequest.parse({"id": second.id, "hard": True}))
                # The earlier version was erased with it.
                assert {await next_event(heard), await next_event(heard)} == {
                    ResourceUpdated(uri="ump://p/"),
                    ResourceUpdated(uri=f"ump://p/{name}"),
                }
            async with client.listen(resources_list_changed=True) as heard:
                remember(peer.service, access, "three")
                assert await next_event(heard) == ResourcesListChanged()

    run(scenario)


def test_a_listener_over_stdio_hears_what_another_process_wrote(tmp_path: Path) -> None:
    home = tmp_path / "home"
    service = store(home)
    access = service.gate.local()

    async def scenario() -> None:
        async with (
            stdio_peer(home) as client,
            client.listen(resources_list_changed=True, resource_subscriptions=["ump://p/"]) as heard,
        ):
            await anyio.to_thread.run_sync(remember, service, access, "written by another process")
            assert {await next_event(heard), await next_event(heard)} == {
                ResourceUpdated(uri="ump://p/"),
                ResourcesListChanged(),
            }

    try:
        run(scenario)
    finally:
        service.close()


@pytest.mark.requirement("UMP-3.8-subscribe")
def test_a_session_over_stdio_is_notified_of_what_another_process_wrote(tmp_path: Path) -> None:
    home = tmp_path / "home"
    service = store(home)
    access = service.gate.local()
    name = remember(service, access, "one")

    async def scenario() -> None:
        inbox = Inbox()
        async with stdio_peer(home, "legacy", inbox) as client:
            await subscribe(client, "ump://p/")
            await subscribe(client, f"ump://p/{name}")
            patch = {"id": name, "patch": {"body": {"text": "two"}}}
            await anyio.to_thread.run_sync(service.revise, access, ReviseRequest.parse(patch))
            for uri in ("ump://p/", f"ump://p/{name}"):
                await inbox.until(UPDATED, uri)
            await inbox.until(LIST_CHANGED)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                await client.unsubscribe_resource("ump://p/")
            inbox.methods.clear()
            await anyio.to_thread.run_sync(remember, service, access, "three")
            await inbox.until(LIST_CHANGED)
            assert (UPDATED, "ump://p/") not in inbox.methods
            with pytest.raises(MCPError, match="uri"):
                await subscribe(client, "file:///etc/passwd")

    try:
        run(scenario)
    finally:
        service.close()


def test_a_session_over_http_is_notified(peer: HttpPeer, owner: str) -> None:
    access = peer.service.gate.local(owner)

    async def scenario() -> None:
        inbox = Inbox()
        async with http_client(peer.url, peer.key(owner), "legacy", inbox) as client:
            await subscribe(client, "ump://p/")
            async with writing_until_done(lambda number: remember(peer.service, access, f"fact {number}")):
                await inbox.until(UPDATED, "ump://p/")
                await inbox.until(LIST_CHANGED)

    run(scenario)


def test_nobody_hears_of_another_owners_changes(peer: HttpPeer, new_owner: Callable[[], str]) -> None:
    alice, bob = new_owner(), new_owner()
    for_alice, for_bob = peer.service.gate.local(alice), peer.service.gate.local(bob)

    async def scenario() -> None:
        inbox = Inbox()
        async with (
            http_client(peer.url, peer.key(bob)) as listening,
            http_client(peer.url, peer.key(bob), "legacy", inbox) as session,
            listening.listen(resources_list_changed=True, resource_subscriptions=["ump://p/"]) as heard,
        ):
            await subscribe(session, "ump://p/")
            name = remember(peer.service, for_alice, "a secret of Alice")
            await subscribe(session, f"ump://p/{name}")
            remember(peer.service, for_alice, "another secret")
            # What Bob hears first is his own change: Alice's came before it and left no trace.
            remember(peer.service, for_bob, "of Bob", None)
            assert await next_event(heard) == ResourcesListChanged()
            async with writing_until_done(lambda number: remember(peer.service, for_bob, f"of Bob {number}", None)):
                await inbox.until(LIST_CHANGED)
            assert {method for method, _ in inbox.methods} == {LIST_CHANGED}

    run(scenario)


def test_a_peer_hears_of_shared_memories_only(peer: HttpPeer, owner: str) -> None:
    access = peer.service.gate.local(owner)
    token = peer.service.gate.mint_token(
        verbs=("read",), scope={"owner": owner}, ttl_ms=60_000, audience="did:example:peer"
    )

    def draft(visibility: str, project: str) -> dict[str, Any]:
        scope = {"project": project, "visibility": visibility}
        return {"kind": "semantic", "body": {"text": visibility}, "scope": scope}

    async def scenario() -> None:
        async with (
            http_client(peer.url, token) as client,
            client.listen(resource_subscriptions=["ump://hidden/", "ump://seen/"]) as heard,
        ):
            for visibility, project in (("private", "hidden"), ("shared", "seen")):
                filled = peer.service.with_defaults(access, draft(visibility, project), method="test")
                peer.service.remember(access, filled)
            assert await next_event(heard) == ResourceUpdated(uri="ump://seen/")

    run(scenario)


def test_a_listener_whose_key_is_revoked_is_let_go(peer: HttpPeer, owner: str) -> None:
    access = peer.service.gate.local(owner)
    key = peer.key(owner)

    async def scenario() -> None:
        async with (
            http_client(peer.url, key) as client,
            client.listen(resources_list_changed=True) as heard,
        ):
            peer.service.gate.revoke_key(key.removeprefix("mk_").partition("_")[0], is_confirmed=True)
            remember(peer.service, access, "not for this key any more")
            assert [event async for event in heard] == []

    run(scenario)


def test_a_key_that_may_not_read_may_not_listen(peer: HttpPeer, owner: str) -> None:
    async def scenario() -> None:
        key = peer.key(owner, "write")
        async with http_client(peer.url, key) as client:
            with pytest.raises(MCPError, match="forbidden_scope"):
                async with client.listen(resources_list_changed=True):
                    pass
            with pytest.raises(MCPError, match="uri"):
                async with client.listen(resource_subscriptions=["ump://"]):
                    pass
        async with http_client(peer.url, key, "legacy") as client:
            with pytest.raises(MCPError, match="forbidden_scope"):
                await subscribe(client, "ump://p/")

    run(scenario)


def test_a_server_that_stops_ends_its_streams_in_good_order(
    tmp_path: Path, owner: str, caplog: pytest.LogCaptureFixture
) -> None:
    with http_peer(tmp_path / "home") as own:
        access = own.service.gate.local(owner)
        key = own.key(owner)

        async def scenario() -> None:
            inbox = Inbox()
            async with (
                http_client(own.url, key) as listening,
                http_client(own.url, key, "legacy", inbox),
                listening.listen(resources_list_changed=True) as heard,
            ):
                # Both streams are open once both were told something.
                async with writing_until_done(lambda number: remember(own.service, access, f"fact {number}")):
                    await next_event(heard)
                    await inbox.until(LIST_CHANGED)
                own.stop()
                async for event in heard:
                    assert event == ResourcesListChanged()

        run(scenario)
    assert [record.message for record in caplog.records if record.name.startswith("uvicorn")] == []
