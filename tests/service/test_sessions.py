"""Browsers that somebody signed in with: for how long, and with what."""

from __future__ import annotations

import pytest

from memoranda.errors import Unauthorized
from memoranda.service.core.sign_in import IDLE_MS, LINK_MS, MAX_SESSION_MS
from tests.service.world import World


def sign_in(world: World) -> str:
    """Open a session with a key that may only read, and return it sealed."""
    return world.service.sessions.sign_in(world.service.gate.add_key("mine", tenant="ada", scopes=("read",)))


def test_a_session_that_is_used_all_the_time_ends_after_its_longest_life(world: World) -> None:
    sealed, started = sign_in(world), world.now
    while world.now + IDLE_MS - 1 < started + MAX_SESSION_MS:
        world.advance(IDLE_MS - 1)
        assert world.service.sessions.authenticate(sealed)[1].tenant == "ada"
    world.advance(started + MAX_SESSION_MS - 1 - world.now)
    assert world.service.sessions.authenticate(sealed)[1].tenant == "ada"
    world.advance(1)
    with pytest.raises(Unauthorized, match="has ended"):
        world.service.sessions.authenticate(sealed)


def test_a_session_that_nobody_uses_ends(world: World) -> None:
    sealed = sign_in(world)
    world.advance(IDLE_MS - 1)
    assert world.service.sessions.authenticate(sealed, is_used=False)[1].tenant == "ada"
    world.advance(1)
    with pytest.raises(Unauthorized, match="has ended"):
        world.service.sessions.authenticate(sealed)


def test_a_link_that_nobody_follows_in_time_opens_no_session(world: World) -> None:
    key = world.service.gate.add_key("mine", tenant="ada", scopes=("read",))
    followed, late = world.service.sessions.create_link(key), world.service.sessions.create_link(key)
    world.advance(LINK_MS - 1)
    assert world.service.sessions.authenticate(world.service.sessions.follow_link(followed))[1].tenant == "ada"
    world.advance(1)
    with pytest.raises(Unauthorized, match="too old"):
        world.service.sessions.follow_link(late)
