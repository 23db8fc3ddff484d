"""People who look at their memory in a browser: how they come in, as whom, and for how long.

Somebody comes in with an API key, or with a link that whoever has a key made: it is good once, and for a few minutes.
From then on the browser holds the name of a session, sealed. The session is a row, so that it can be ended, on every
server at once; it can do what its key can, and ends with it, and when nobody has used it for a while.

Programs that a person lets in (OAuth 2.1): who they say they are, what they ask for, and what they were granted.

Of a program that registers or asks nothing is kept: its client id and its request are what it said, sealed with a key
of this installation. So strangers fill nothing. A row is kept from the moment that a person approves, with one of the
API keys: what the program then holds can never do more than that key, and ends with it.

The row counts turns. The code is the first, each refresh token the next; whoever comes with a turn that was taken
already ends the grant, because then two have it, and one of them is a thief (OAuth 2.1 4.1.3, 4.3.1). Access tokens are
capability tokens of the operator, for the MCP endpoint alone, that hold only while there is the row.

What this installation said, as it travels through other hands and back: sealed, so nothing need be kept of it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection, Sequence
from typing import ClassVar, Final, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from memoranda.encoding.bases import base32_encode, base64url_decode, base64url_encode
from memoranda.encoding.didkey import SigningKey
from memoranda.errors import ForbiddenScope, InvalidInput, NotFound, Unauthorized
from memoranda.model.instant import Instant
from memoranda.service.core.access import ALL_VERBS, GRANT_PREFIX, SCOPES, TOKEN_VERBS, Access, Gate
from memoranda.storage.engine.contract import ProgramGrant, System

# Characters of a sealed value; the largest is a client id with eight redirect URIs.
SEALED_CHARS_LIMIT: Final = 16_384


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """A value that leaves this server sealed and comes back."""

    # The name under which the type is sealed. Values that were issued earlier carry it: it never changes.
    seal_name: ClassVar[str]


T = TypeVar("T", bound=Sealed)


class Seals:
    """Seals values with a key: JSON and its HMAC, both base64url. A value of one type never opens as another."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, value: Sealed) -> str:
        """Return the value as text that only this server can have made."""
        body = msgspec.json.encode(value)
        return f"{base64url_encode(body)}.{base64url_encode(self._sign(type(value), body))}"

    def unseal(self, text: str, kind: type[T]) -> T | None:
        """Return the value of a sealed text; None if its seal is not ours, or of another type."""
        body_text, _, seal = text.partition(".")
        if len(text) > SEALED_CHARS_LIMIT:
            return None
        try:
            body, signature = base64url_decode(body_text), base64url_decode(seal)
        except ValueError:
            return None
        if not hmac.compare_digest(signature, self._sign(kind, body)):
            return None
        return msgspec.json.decode(body, type=kind)

    def _sign(self, kind: type[Sealed], body: bytes) -> bytes:
        return hmac.digest(self._key, kind.seal_name.encode() + b"\0" + body, "sha256")


LINK_MS: Final = 10 * 60_000
IDLE_MS: Final = 30 * 60_000
# However busy somebody is.
MAX_SESSION_MS: Final = 12 * 3_600_000
# With the programs that were let in with the same key: whoever was used least lately is let go.
SESSIONS_LIMIT: Final = 64
# What the row of a session says in the place of a program's verbs: no program can use it, and no session theirs.
_SESSION_VERBS: Final = ("console",)
# A session that is in use is not written to at every click.
_EXTEND_INTERVAL_MS: Final = 60_000


class SignInLink(Sealed, frozen=True, kw_only=True):
    """What opens a session once."""

    seal_name: ClassVar[str] = "Link"
    grant_id: str
    expires: Instant


class Session(Sealed, frozen=True, kw_only=True):
    """A browser that somebody signed in with."""

    seal_name: ClassVar[str] = "Session"
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

    def create_link(self, key: str) -> str:
        """What opens one session for whoever holds it, with the rights of this key. Raises Unauthorized."""
        expires = Instant(self._clock() + LINK_MS)
        return self._seals.seal(SignInLink(grant_id=self._add_grant(key, expires), expires=expires))

    def follow_link(self, text: str) -> str:
        """The session that a link opens, sealed. Raises Unauthorized."""
        link, now = self._seals.unseal(text, SignInLink), self._clock()
        if link is None or link.expires <= now:
            raise Unauthorized("this link is not one of ours, or it is too old")
        grant = self._system.use_grant(link.grant_id, 0, now=now, expires=Instant(now + IDLE_MS))
        if grant is None:
            raise Unauthorized("this link was used before")
        return self._seal_session(link.grant_id, now)

    def sign_in(self, key: str) -> str:
        """A session for whoever has a key, sealed. Raises Unauthorized."""
        now = self._clock()
        return self._seal_session(self._add_grant(key, Instant(now + IDLE_MS)), now)

    def _add_grant(self, key: str, expires: Instant) -> str:
        access = self._gate.authenticate(key)
        kind, _, key_id = access.credential.partition(":")
        if kind != "key":
            raise Unauthorized("that is no API key")
        grant_id = base32_encode(secrets.token_bytes(20))
        grant = ProgramGrant(
            grant_id=grant_id, key_id=key_id, verbs=_SESSION_VERBS, expires=expires
        )
        self._system.add_grant(grant, now=self._clock(), limit=SESSIONS_LIMIT)
        return grant_id

    def _seal_session(self, grant_id: str, now: Instant) -> str:
        return self._seals.seal(
            Session(grant_id=grant_id, started=now, token=secrets.token_urlsafe(16))
        )

    def authenticate(self, text: str, *, is_used: bool = True) -> tuple[Session, Access]:
        """Whose session it is. Raises Unauthorized once it has ended. `is_used`: somebody does something with it."""
        session, now = self._seals.unseal(text, Session), self._clock()
        grant = None if session is None else self._system.load_grant(session.grant_id, now)
        if (
            session is None
            or grant is None
            or grant.verbs != _SESSION_VERBS
            or session.started + MAX_SESSION_MS <= now
        ):
            raise Unauthorized("the session has ended; sign in again")
        if is_used and grant.expires < now + IDLE_MS - _EXTEND_INTERVAL_MS:
            self._system.extend_grant(session.grant_id, Instant(now + IDLE_MS))
        return session, self._gate.for_person(grant.key_id, f"session:{session.grant_id}")

    def key_id(self, session: Session) -> str | None:
        """Return the id of the key that a session was opened with; None if the session has ended."""
        grant = self._system.load_grant(session.grant_id, self._clock())
        return None if grant is None else grant.key_id

    def open_sessions(self, access: Access, session: Session) -> list[ProgramGrant]:
        """Return the sessions of an owner, last used first; to a key that may not do everything, only its own."""
        if access.verbs >= ALL_VERBS:
            keys = {key.key_id for key in self._gate.keys_of(access.default_tenant)}
        else:
            keys = {key_id for key_id in (self.key_id(session),) if key_id is not None}
        return [
            grant
            for grant in self._system.list_grants(self._clock())
            if grant.verbs == _SESSION_VERBS and grant.key_id in keys
        ]

    def end_session(self, access: Access, session: Session, grant_id: str) -> None:
        """End one of them. Raises NotFound."""
        if grant_id not in (grant.grant_id for grant in self.open_sessions(access, session)):
            raise NotFound("there is no such session")
        self._system.delete_grant(grant_id)


# Who may register: whom the operator registered (known), also programs on the caller's own machine (on), or anyone.
Registration = Literal["known", "on", "open"]

# A person reads and pastes a key; a program comes for its tokens at once.
REQUEST_MS: Final = 10 * 60_000
CODE_MS: Final = 60_000
# What is stolen is good for a short time; a program that is not used for a month asks again.
ACCESS_MS: Final = 15 * 60_000
REFRESH_MS: Final = 30 * 86_400_000
GRANTS_LIMIT: Final = 64
# What travels in an address, several times over, and fits the head of a request.
NAME_CHARS_LIMIT: Final = 100
REDIRECTS_LIMIT: Final = 8
REDIRECT_CHARS_LIMIT: Final = 512
STATE_CHARS_LIMIT: Final = 2_048
CHALLENGE_CHARS: Final = 43

# What a program gets that does not say: enough for all tools that do not take whole collections out.
DEFAULT_VERBS: Final = ("read", "write", "derive")
GRANTABLE_VERBS: Final = tuple(verb for verb in SCOPES if verb in TOKEN_VERBS)
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class Client(Sealed, frozen=True, kw_only=True):
    """A program, as it registered itself. Every one is public: it has no secret, and proves itself with PKCE."""

    seal_name: ClassVar[str] = "Client"
    name: str
    redirect_uris: tuple[str, ...]


class AuthorizationRequest(Sealed, frozen=True, kw_only=True):
    """What a program asks a person for."""

    seal_name: ClassVar[str] = "Asked"
    client_id: str
    redirect_uri: str
    # Whether the program named the address, and must name it again.
    is_explicit: bool
    state: str | None
    challenge: str
    verbs: tuple[str, ...]
    expires: Instant


class GrantToken(Sealed, frozen=True, kw_only=True):
    """What can be exchanged once: a code, which knows what it was asked for with, or a refresh token."""

    seal_name: ClassVar[str] = "Turn"
    grant_id: str
    number: int
    # A digest of the client id, to which it was given.
    client: str
    verbs: tuple[str, ...]
    expires: Instant
    redirect_uri: str = ""
    is_explicit: bool = False
    challenge: str = ""


class IssuedTokens(msgspec.Struct, frozen=True, kw_only=True):
    """What a program holds from now on."""

    access_token: str
    refresh_token: str
    verbs: tuple[str, ...]


class Grants:
    """Registers programs, asks for them, and gives them what a person approved."""

    def __init__(
        self, gate: Gate, system: System, operator: SigningKey, clock: Callable[[], Instant]
    ) -> None:
        self._gate = gate
        self._system = system
        self._seals = Seals(operator.derive(b"oauth seals"))
        self._clock = clock

    def register(
        self, name: str, redirect_uris: Sequence[str], *, registration: Registration = "open"
    ) -> str:
        """A client id, which is all that there is of a program. Raises InvalidInput."""
        if not redirect_uris or len(redirect_uris) > REDIRECTS_LIMIT:
            raise InvalidInput(f"a program names one to {REDIRECTS_LIMIT} redirect URIs")
        for uri in redirect_uris:
            check_redirect(uri)
            if registration != "open" and not is_loopback(uri):
                raise InvalidInput(
                    "redirect_uris: only programs on one's own machine may register themselves here"
                )
        if not name.strip() or len(name) > NAME_CHARS_LIMIT or not name.isprintable():
            raise InvalidInput(
                f"client_name: a printable name of at most {NAME_CHARS_LIMIT} characters"
            )
        return self._seals.seal(Client(name=name, redirect_uris=tuple(redirect_uris)))

    def find_client(self, client_id: str) -> Client | None:
        return self._seals.unseal(client_id, Client)

    def seal_request(self, request: AuthorizationRequest) -> str:
        """The request as it travels to the person and back. Raises InvalidInput."""
        if len(request.state or "") > STATE_CHARS_LIMIT:
            raise InvalidInput(f"state: at most {STATE_CHARS_LIMIT} characters")
        if len(request.challenge) != CHALLENGE_CHARS:
            raise InvalidInput("code_challenge: must be a SHA-256, base64url")
        if unknown := sorted(set(request.verbs) - set(GRANTABLE_VERBS)):
            raise InvalidInput(f"scope: there is no {unknown[0][:40]!a}")
        return self._seals.seal(request)

    def open_request(self, text: str) -> tuple[AuthorizationRequest, Client]:
        """What a program asks for, and which. Raises InvalidInput."""
        request = self._seals.unseal(text, AuthorizationRequest)
        client = None if request is None else self.find_client(request.client_id)
        if request is None or client is None or request.expires <= self._clock():
            raise InvalidInput(
                "this request is not one of ours, or it is too old; have the program ask again"
            )
        return request, client

    def request_expiry(self) -> Instant:
        """Until when a request that is made now is good."""
        return Instant(self._clock() + REQUEST_MS)

    def approve(self, request: AuthorizationRequest, key: str) -> str:
        """The code for a program that somebody lets in with an API key. Raises Unauthorized or ForbiddenScope."""
        access = self._gate.authenticate(key)
        kind, _, key_id = access.credential.partition(":")
        if kind != "key":
            raise Unauthorized("that is no API key")
        verbs = tuple(verb for verb in request.verbs if verb in access.verbs)
        if not verbs:
            raise ForbiddenScope("that key may do nothing of what the program asks for")
        now = self._clock()
        grant_id, expires = base32_encode(secrets.token_bytes(20)), Instant(now + CODE_MS)
        grant = ProgramGrant(grant_id=grant_id, key_id=key_id, verbs=verbs, expires=expires)
        self._system.add_grant(grant, now=now, limit=GRANTS_LIMIT)
        return self._seals.seal(
            GrantToken(
                grant_id=grant.grant_id,
                number=0,
                client=_digest(request.client_id),
                verbs=verbs,
                expires=Instant(now + CODE_MS),
                redirect_uri=request.redirect_uri,
                is_explicit=request.is_explicit,
                challenge=request.challenge,
            )
        )

    def open_token(self, text: str, client_id: str, *, is_code: bool) -> GrantToken | None:
        """What a program brings to be exchanged, if it was given to this one."""
        turn = self._seals.unseal(text, GrantToken)
        if turn is None or is_code != (turn.number == 0):
            return None
        return turn if hmac.compare_digest(turn.client, _digest(client_id)) else None

    def exchange(self, turn: GrantToken, verbs: Collection[str]) -> IssuedTokens:
        """New tokens for a code or a refresh token, which is good once. Raises Unauthorized."""
        now = self._clock()
        expires = Instant(now + REFRESH_MS)
        grant = self._system.use_grant(turn.grant_id, turn.number, now=now, expires=expires)
        if grant is None or turn.expires <= now:
            raise Unauthorized("it was used before, or is too old")
        granted = tuple(verb for verb in grant.verbs if verb in verbs)
        jti = GRANT_PREFIX + grant.grant_id
        owner = self._gate.owner_of_grant(jti)
        token = self._gate.mint_token(
            verbs=granted, scope={"owner": owner}, ttl_ms=ACCESS_MS, jti=jti
        )
        following = GrantToken(
            grant_id=grant.grant_id,
            number=turn.number + 1,
            client=turn.client,
            verbs=grant.verbs,
            expires=expires,
        )
        return IssuedTokens(
            access_token=token, refresh_token=self._seals.seal(following), verbs=granted
        )

    def end_grant(self, grant_id: str) -> None:
        """Take a grant back, with all that was handed out for it."""
        self._system.delete_grant(grant_id)


def check_redirect(uri: str) -> None:
    """MCP: https, or a program on one's own machine. Raises InvalidInput."""
    try:
        parts = urlsplit(uri)
        is_whole = bool(parts.hostname) and parts.username is None and parts.port != 0
    except ValueError:
        is_whole = False
    if (
        not is_whole
        or len(uri) > REDIRECT_CHARS_LIMIT
        or "#" in uri
        or not uri.isascii()
        or not uri.isprintable()
    ):
        raise InvalidInput(
            "redirect_uris: each must be a whole address of ASCII, without a fragment"
        )
    if parts.scheme != "https" and not is_loopback(uri):
        raise InvalidInput("redirect_uris: https, or http on 127.0.0.1, [::1] or localhost")


def is_registered_redirect(registered: Sequence[str], uri: str) -> bool:
    """Whether a program may be answered there: exactly what it registered, on loopback at any port (RFC 8252 7.3)."""
    return uri in registered or any(
        _without_port(registered_uri) == _without_port(uri)
        for registered_uri in registered
        if is_loopback(registered_uri) and is_loopback(uri)
    )


def is_loopback(uri: str) -> bool:
    """Whether it leads to a program on the machine of whoever follows it."""
    parts = urlsplit(uri)
    return parts.scheme == "http" and parts.hostname in LOOPBACK


def _without_port(uri: str) -> tuple[str | None, ...]:
    parts = urlsplit(uri)
    return parts.scheme, parts.username, parts.hostname, parts.path, parts.query, parts.fragment


def _digest(client_id: str) -> str:
    return hashlib.sha256(client_id.encode("utf-8", "surrogatepass")).hexdigest()
