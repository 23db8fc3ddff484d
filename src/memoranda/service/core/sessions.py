"""People who look at their memory in a browser: how they come in, as whom, and for how long.

Somebody comes in with an API key, or with a link that whoever has a key made: it is good once, and for a few minutes.
From then on the browser holds the name of a session, sealed. The session is a row, so that it can be ended, on every
server at once; it can do what its key can, and ends with it, and when nobody has used it for a while.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from memoranda.encoding.bases import base32_encode
from memoranda.encoding.didkey import SigningKey
from memoranda.errors import NotFound, Unauthorized
from memoranda.model.instant import Instant
from memoranda.service.core.access import ALL_VERBS, Access, Gate
from memoranda.service.core.seals import Seals
from memoranda.storage.engine.contract import ProgramGrant, System

LINK_MS: Final = 10 * 60_000
IDLE_MS: Final = 30 * 60_000
# However busy somebody is.
LONGEST_MS: Final = 12 * 3_600_000
# With the programs that were let in with the same key: whoever was used least lately is let go.
SESSIONS_LIMIT: Final = 64
# What the row of a session says in the place of a program's verbs: no program can use it, and no session theirs.
_VERBS: Final = ("console",)
# A session that is in use is not written to at every click.
_EXTENDED_MS: Final = 60_000


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """What opens a session once."""

    grant_id: str
    expires: Instant


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A browser that somebody signed in with."""

    grant_id: str
    started: Instant
    # What every form must say: other pages cannot know it.
    token: str


class Sessions:
    """Opens sessions, knows who has one, and ends them."""

    def __init__(
        self, gate: Gate, system: System, operator: SigningKey, clock: Callable[[], Instant]
    ) -> None:
        self._gate = gate
        self._system = system
        self._seals = Seals(operator.derive(b"console seals"))
        self._clock = clock

    def link(self, key: str) -> str:
        """What opens one session for whoever holds it, with the rights of this key. Raises Unauthorized."""
        expires = Instant(self._clock() + LINK_MS)
        return self._seals.seal(Link(grant_id=self._add(key, expires), expires=expires))

    def follow(self, text: str) -> str:
        """The session that a link opens, sealed. Raises Unauthorized."""
        link, now = self._seals.unseal(text, Link), self._clock()
        if link is None or link.expires <= now:
            raise Unauthorized("this link is not one of ours, or it is too old")
        found = self._system.take_turn(link.grant_id, 0, now=now, expires=Instant(now + IDLE_MS))
        if found is None:
            raise Unauthorized("this link was used before")
        return self._session(link.grant_id, now)

    def sign_in(self, key: str) -> str:
        """A session for whoever has a key, sealed. Raises Unauthorized."""
        now = self._clock()
        return self._session(self._add(key, Instant(now + IDLE_MS)), now)

    def _add(self, key: str, expires: Instant) -> str:
        access = self._gate.authenticate(key)
        kind, _, key_id = access.credential.partition(":")
        if kind != "key":
            raise Unauthorized("that is no API key")
        grant_id = base32_encode(secrets.token_bytes(20))
        grant = ProgramGrant(grant_id=grant_id, key_id=key_id, verbs=_VERBS, expires=expires)
        self._system.add_grant(grant, now=self._clock(), limit=SESSIONS_LIMIT)
        return grant_id

    def _session(self, grant_id: str, now: Instant) -> str:
        return self._seals.seal(
            Session(grant_id=grant_id, started=now, token=secrets.token_urlsafe(16))
        )

    def known(self, text: str, *, is_used: bool = True) -> tuple[Session, Access]:
        """Whose session it is. Raises Unauthorized once it has ended. `is_used`: somebody does something with it."""
        session, now = self._seals.unseal(text, Session), self._clock()
        grant = None if session is None else self._system.grant(session.grant_id, now)
        if (
            session is None
            or grant is None
            or grant.verbs != _VERBS
            or session.started + LONGEST_MS <= now
        ):
            raise Unauthorized("the session has ended; sign in again")
        if is_used and grant.expires < now + IDLE_MS - _EXTENDED_MS:
            self._system.extend_grant(session.grant_id, Instant(now + IDLE_MS))
        return session, self._gate.for_person(grant.key_id, f"session:{session.grant_id}")

    def key_id(self, session: Session) -> str | None:
        """Return the id of the key that a session was opened with; None if the session has ended."""
        grant = self._system.grant(session.grant_id, self._clock())
        return None if grant is None else grant.key_id

    def open_sessions(self, access: Access, session: Session) -> list[ProgramGrant]:
        """Return the sessions of an owner, last used first; to a key that may not do everything, only its own."""
        if access.verbs >= ALL_VERBS:
            keys = {key.key_id for key in self._gate.keys_of(access.default_tenant)}
        else:
            keys = {key_id for key_id in (self.key_id(session),) if key_id is not None}
        return [
            grant
            for grant in self._system.grants(self._clock())
            if grant.verbs == _VERBS and grant.key_id in keys
        ]

    def end(self, access: Access, session: Session, grant_id: str) -> None:
        """End one of them. Raises NotFound."""
        if grant_id not in (each.grant_id for each in self.open_sessions(access, session)):
            raise NotFound("there is no such session")
        self._system.drop_grant(grant_id)
