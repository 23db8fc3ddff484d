"""Programs that a person let in: for how long, how many, and with what."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from memoranda.errors import ForbiddenScope, InvalidInput, Unauthorized
from memoranda.service.core.access import Access
from memoranda.service.core.sign_in import (
    ACCESS_MS,
    CODE_MS,
    GRANTS_LIMIT,
    REFRESH_MS,
    REQUEST_MS,
    AuthorizationRequest,
    GrantToken,
    IssuedTokens,
    is_registered_redirect,
)
from tests.service.world import World

PLACE = "http://127.0.0.1:1/cb"


def asked(world: World, **changes: Any) -> AuthorizationRequest:
    client_id = world.service.grants.register("p", [PLACE], registrar="self")
    whole = AuthorizationRequest(
        client_id=client_id,
        redirect_uri=PLACE,
        is_explicit=True,
        state=None,
        challenge="c" * 43,
        verbs=("read", "write"),
        expires=world.service.grants.request_expiry(),
    )
    return msgspec.structs.replace(whole, **changes)


def key(world: World, *scopes: str) -> str:
    return world.service.gate.add_key("mine", tenant="ada", scopes=scopes or ("read", "write", "erase"))


def code(world: World, secret: str) -> GrantToken:
    request = asked(world)
    found = world.service.grants.open_token(
        world.service.grants.approve(request, secret), request.client_id, is_code=True
    )
    assert found is not None
    return found


def next_turn(world: World, granted: IssuedTokens) -> GrantToken:
    found = world.service.grants.open_token(granted.refresh_token, asked(world).client_id, is_code=False)
    assert found is not None
    return found


def let_in(world: World, granted: IssuedTokens) -> Access:
    return world.service.gate.authenticate(granted.access_token)


def test_a_program_does_what_the_key_may_and_no_more(world: World) -> None:
    granted = world.service.grants.exchange(code(world, key(world, "read", "erase")), ("read", "write"))
    access = let_in(world, granted)
    assert access.verbs == {"read"}
    assert (access.tenant, access.actor, access.audience) == ("ada", "key:mine", "/mcp")
    assert access.sees_unredacted("ada")
    with pytest.raises(ForbiddenScope, match="nothing of what"):
        world.service.grants.approve(asked(world), key(world, "erase"))


def test_a_token_of_another_kind_approves_nothing(world: World) -> None:
    token = world.service.gate.mint_token(verbs=("read",), scope={"owner": "ada"}, ttl_ms=1_000)
    with pytest.raises(Unauthorized, match="not an API key"):
        world.service.grants.approve(asked(world), token)


def test_what_is_too_old_is_no_good(world: World) -> None:
    grants, secret = world.service.grants, key(world)
    request = grants.seal_request(asked(world))
    stale = code(world, secret)
    world.advance(CODE_MS)
    with pytest.raises(Unauthorized, match="has expired"):
        grants.exchange(stale, ("read",))
    world.advance(REQUEST_MS - CODE_MS)
    with pytest.raises(InvalidInput, match="expired"):
        grants.open_request(request, "open")
    granted = grants.exchange(code(world, secret), ("read",))
    world.advance(ACCESS_MS + 1)
    with pytest.raises(Unauthorized, match="expired"):
        let_in(world, granted)
    granted = grants.exchange(next_turn(world, granted), ("read",))
    world.advance(REFRESH_MS)
    with pytest.raises(Unauthorized, match="has expired"):
        grants.exchange(next_turn(world, granted), ("read",))


def test_revoking_the_key_ends_what_it_let_in_at_once(world: World) -> None:
    granted = world.service.grants.exchange(code(world, key(world)), ("read",))
    assert let_in(world, granted).verbs == {"read"}
    world.service.gate.revoke_key("mine")
    with pytest.raises(Unauthorized, match="no access any more"):
        let_in(world, granted)
    with pytest.raises(Unauthorized):
        world.service.grants.exchange(next_turn(world, granted), ("read",))


def test_a_key_lets_in_so_many_programs_and_those_used_last_stay(world: World) -> None:
    secret = key(world)
    first = world.service.grants.exchange(code(world, secret), ("read",))
    world.advance(1)
    others = [world.service.grants.exchange(code(world, secret), ("read",)) for _ in range(GRANTS_LIMIT - 1)]
    assert let_in(world, first).verbs == {"read"}
    world.advance(1)
    world.service.grants.exchange(code(world, secret), ("read",))
    with pytest.raises(Unauthorized):
        let_in(world, first)
    assert let_in(world, others[-1]).verbs == {"read"}


@pytest.mark.parametrize("changes", [{"verbs": ("erase",)}, {"challenge": "x"}, {"state": "x" * 3_000}])
def test_a_request_that_is_not_right_is_refused(world: World, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        world.service.grants.seal_request(asked(world, **changes))


def test_a_request_is_good_until_it_is_too_old_and_garbage_never(world: World) -> None:
    grants = world.service.grants
    request, client = grants.open_request(grants.seal_request(asked(world)), "open")
    assert (request.redirect_uri, client.name) == (PLACE, "p")
    for text in ("", "garbage", request.client_id):
        with pytest.raises(InvalidInput, match="invalid"):
            grants.open_request(text, "open")


@pytest.mark.parametrize(
    "uri",
    ["https://h/#x", "https:///x", "https://user@h/x", "https://h:0/x", "https://h/\u00e9", "https://h/" + "a" * 3_000],
)
def test_an_address_that_is_not_whole_is_registered_nowhere(world: World, uri: str) -> None:
    with pytest.raises(InvalidInput, match="whole address"):
        world.service.grants.register("p", [uri], registrar="operator")


def test_programs_on_ones_own_machine_register_themselves_and_others_only_where_anyone_may(world: World) -> None:
    register = world.service.grants.register
    assert register("p", [PLACE], registrar="self", registration="on")
    assert register("p", ["https://h/x"], registrar="self", registration="open")
    assert register("p", ["https://h/x"], registrar="operator", registration="on")
    with pytest.raises(InvalidInput, match="one's own machine"):
        register("p", ["https://h/x"], registrar="self", registration="on")


def test_on_loopback_any_port_of_any_registered_address_is_accepted() -> None:
    registered = ("http://127.0.0.1:1/a", "http://127.0.0.1:1/b", "https://h/x")
    for uri in ("http://127.0.0.1:9/a", "http://127.0.0.1:9/b", "https://h/x"):
        assert is_registered_redirect(registered, uri)
    for uri in ("http://127.0.0.1:9/c", "https://h:9/x", "http://h/x"):
        assert not is_registered_redirect(registered, uri)
