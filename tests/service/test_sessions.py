"""Browsers that somebody signed in with: for how long, and with what."""

from __future__ import annotations

import pytest

from memoranda.errors import Unauthorized
from memoranda.model.instant import Instant
from memoranda.service.core.sign_in import IDLE_MS, LINK_MS, MAX_SESSION_MS
from memoranda.storage.engine.contract import ProgramGrant
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
    with pytest.raises(Unauthorized, match="expired"):
        world.service.sessions.follow_link(late)


def test_what_is_no_link_and_no_session_of_ours_is_refused(world: World) -> None:
    sessions = world.service.sessions
    for text in ("", "garbage", sign_in(world)):
        with pytest.raises(Unauthorized, match="invalid"):
            sessions.follow_link(text)
    with pytest.raises(Unauthorized, match="has ended"):
        sessions.authenticate(sessions.create_link(world.service.gate.add_key("k", tenant="ada", scopes=("read",))))


def test_the_grant_of_a_program_is_no_session_and_is_not_ended_as_one(world: World) -> None:
    sessions, gate = world.service.sessions, world.service.gate
    key = gate.add_key("mine", tenant="ada", scopes=("read",))
    other = sessions.sign_in(gate.add_key("other", tenant="ada", scopes=("read",)))
    mine = sessions.sign_in(key)
    key_id = sessions.key_id(sessions.authenticate(mine)[0])
    assert key_id is not None
    expires = Instant(world.now + IDLE_MS)
    program = ProgramGrant(grant_id="program", key_id=key_id, verbs=("read",), expires=expires)
    world.engine.system.add_grant(program, now=world.now, limit=9)
    with pytest.raises(Unauthorized, match="has ended"):
        sessions.authenticate(sessions._seal_session("program", world.now))
    session, access = sessions.authenticate(mine)
    assert [grant.grant_id for grant in sessions.open_sessions(access, session)] == [session.grant_id]
    assert sessions.end_sessions_of(key_id) == 1
    with pytest.raises(Unauthorized, match="has ended"):
        sessions.authenticate(mine)
    assert sessions.authenticate(other)[1].tenant == "ada"
    assert world.engine.system.load_grant("program", world.now) is not None


def test_a_session_in_use_is_not_written_at_every_request(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed, extended = sign_in(world), []
    system = world.service.sessions._system
    monkeypatch.setattr(system, "extend_grant", lambda *arguments: extended.append(arguments))
    world.service.sessions.authenticate(sealed)
    assert extended == []
    world.advance(IDLE_MS // 2)
    world.service.sessions.authenticate(sealed)
    assert len(extended) == 1
