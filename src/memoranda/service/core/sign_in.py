"""Sign-in: browser sessions for the console, and OAuth programs that a person lets in (OAuth 2.1).

Both start with an API key, and neither can ever do more than that key, nor outlive it. Each is one row in the store
(`ProgramGrant`), so that it can be ended on every server at once. Everything that travels through other hands (client
ids, authorization requests, codes, refresh tokens, sign-in links, session cookies) is sealed with a key of this
installation (`Seals`), so nothing is stored for it: strangers who register programs fill no space.

Sessions. A person signs in with an API key, or with a link made with one, which is valid once and for ten minutes, or
with an account of their organisation, by rules that are applied to each request (people.py). The browser then holds the
sealed session. It ends with its key, after 30 minutes without use, or after 12 hours.

Programs. A program registers, sends a person to approve its request with an API key, and exchanges the code for tokens.
The grant's row counts generations: the code is generation 0, each refresh token the next. A generation that is
presented twice ends the grant, because two parties hold it and one of them is a thief (OAuth 2.1 4.1.3, 4.3.1). Access
tokens are capability tokens of the operator, for the MCP endpoint alone, and valid only while the row exists.

Threats that shaped this module: a stolen cookie or link (short times, one use), a stolen refresh token (generations), a
program that claims to be another (sealed client ids, PKCE, exact redirect URIs), a page that sends forms on behalf of a
person (the token of the session), and a stranger who fills the disk (nothing is stored before a person approves). Each
class of sealed values has its own name in the seal, so that a link cannot be used as a session. HTTP is in
`bindings/http/oauth.py` and `bindings/console`.
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
from memoranda.service.core.people import People, Person
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
        """Return the value of a sealed text; None if its seal is not ours, or of another type.

        Text that is too long, not base64 or with a wrong seal gives None, without saying which.
        """
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


# Milliseconds in which a sign-in link is valid, and after which an unused session ends.
LINK_MS: Final = 10 * 60_000
IDLE_MS: Final = 30 * 60_000
# Milliseconds after which a session ends even if it is in use.
MAX_SESSION_MS: Final = 12 * 3_600_000
# Sessions and programs of one key; of more, the least recently used ends.
SESSIONS_LIMIT: Final = 64
# Stored in place of a program's verbs: no program can use the row of a session, and no session that of a program.
_SESSION_VERBS: Final = ("console",)
# Milliseconds between two extensions of a session: not every click writes to the store.
_EXTEND_INTERVAL_MS: Final = 60_000


class SignInLink(Sealed, frozen=True, kw_only=True):
    """A link that opens a session once."""

    seal_name: ClassVar[str] = "Link"
    grant_id: str
    expires: Instant


class Session(Sealed, frozen=True, kw_only=True):
    """A browser in which somebody signed in."""

    seal_name: ClassVar[str] = "Session"
    grant_id: str
    started: Instant
    # A token that every form of the console must send; other pages cannot know it.
    token: str
    # The person who signed in with an account of their organisation; None for a session of an API key.
    person: Person | None = None


class Sessions:
    """The sessions of the console: opens, authenticates and ends them."""

    def __init__(
        self,
        gate: Gate,
        system: System,
        operator: SigningKey,
        clock: Callable[[], Instant],
        people: People | None = None,
    ) -> None:
        self._gate = gate
        self._system = system
        self._seals = Seals(operator.derive(b"console seals"))
        self._clock = clock
        self._people = people

    def create_link(self, key: str) -> str:
        """Return a sealed link that opens one session with the rights of a key. Raises Unauthorized."""
        expires = Instant(self._clock() + LINK_MS)
        return self._seals.seal(SignInLink(grant_id=self._add_grant(key, expires), expires=expires))

    def follow_link(self, text: str) -> str:
        """Return the sealed session that a link opens. Raises Unauthorized if it was used or is too old.

        Using the link advances its grant from generation 0, so a second use fails even on another server.
        """
        link, now = self._seals.unseal(text, SignInLink), self._clock()
        if link is None or link.expires <= now:
            raise Unauthorized("this link is invalid or has expired")
        grant = self._system.use_grant(link.grant_id, 0, now=now, expires=Instant(now + IDLE_MS))
        if grant is None:
            raise Unauthorized("this link was used before")
        return self._seal_session(link.grant_id, now)

    def sign_in(self, key: str) -> str:
        """Return a new sealed session for a key. Raises Unauthorized."""
        now = self._clock()
        return self._seal_session(self._add_grant(key, Instant(now + IDLE_MS)), now)

    def sign_in_person(self, person: Person, state: str) -> str:
        """Return a new sealed session for a person. Raises Unauthorized.

        `state` names the sign-in, which opens one session: the id of the session is derived from it.
        """
        now = self._clock()
        grant_id = base32_encode(hashlib.sha256(state.encode()).digest()[:20])
        self._admit_person(person, grant_id)
        if self._system.load_grant(grant_id, now) is not None:
            raise Unauthorized("this sign-in was completed before")
        grant = ProgramGrant(
            grant_id=grant_id,
            key_id=person.key_id,
            verbs=_SESSION_VERBS,
            expires=Instant(now + IDLE_MS),
        )
        self._system.add_grant(grant, now=now, limit=SESSIONS_LIMIT)
        return self._seal_session(grant_id, now, person)

    def _admit_person(self, person: Person, grant_id: str) -> Access:
        if self._people is None:
            raise Unauthorized("signing in with an account is switched off here")
        return self._people.admit(person, f"session:{grant_id}")

    def end_sessions_of(self, key_id: str) -> int:
        """End the sessions of a key or a person, and return their number."""
        grants = [
            grant
            for grant in self._system.list_grants(self._clock())
            if grant.verbs == _SESSION_VERBS and grant.key_id == key_id
        ]
        for grant in grants:
            self._system.delete_grant(grant.grant_id)
        return len(grants)

    def _add_grant(self, key: str, expires: Instant) -> str:
        """Store the row of a session and return its id. Raises Unauthorized unless the key is an API key."""
        access = self._gate.authenticate(key)
        kind, _, key_id = access.credential.partition(":")
        if kind != "key":
            raise Unauthorized("this is not an API key")
        grant_id = base32_encode(secrets.token_bytes(20))
        grant = ProgramGrant(
            grant_id=grant_id, key_id=key_id, verbs=_SESSION_VERBS, expires=expires
        )
        self._system.add_grant(grant, now=self._clock(), limit=SESSIONS_LIMIT)
        return grant_id

    def _seal_session(self, grant_id: str, now: Instant, person: Person | None = None) -> str:
        token = secrets.token_urlsafe(16)
        return self._seals.seal(Session(grant_id=grant_id, started=now, token=token, person=person))

    def authenticate(self, text: str, *, is_used: bool = True) -> tuple[Session, Access]:
        """Return a session and its access. Raises Unauthorized once it has ended. `is_used` extends its idle time.

        The idle time is extended at most once a minute, to save writes. The rights of the key or person are read again
        at every request, so a change takes effect at once.
        """
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
        if session.person is not None:
            return session, self._admit_person(session.person, session.grant_id)
        return session, self._gate.for_person(grant.key_id, f"session:{session.grant_id}")

    def key_id(self, session: Session) -> str | None:
        """Return the id of the key that a session was opened with; None if the session has ended."""
        grant = self._system.load_grant(session.grant_id, self._clock())
        return None if grant is None else grant.key_id

    def open_sessions(self, access: Access, session: Session) -> list[ProgramGrant]:
        """Return the open sessions of an owner, last used first; a key without all scopes sees only its own."""
        keys = {key_id for key_id in (self.key_id(session),) if key_id is not None}
        if access.verbs >= ALL_VERBS:
            keys |= {key.key_id for key in self._gate.keys_of(access.default_tenant)}
        return [
            grant
            for grant in self._system.list_grants(self._clock())
            if grant.verbs == _SESSION_VERBS and grant.key_id in keys
        ]

    def end_session(self, access: Access, session: Session, grant_id: str) -> None:
        """End one of the sessions that the caller may see. Raises NotFound."""
        if grant_id not in (grant.grant_id for grant in self.open_sessions(access, session)):
            raise NotFound("there is no such session")
        self._system.delete_grant(grant_id)


# Programs that may register: those of the operator's list (known), also those on the caller's machine (on), or all
# (open).
Registration = Literal["known", "on", "open"]

# Milliseconds in which a person can read the request and paste a key, and in which a program fetches its tokens.
REQUEST_MS: Final = 10 * 60_000
CODE_MS: Final = 60_000
# Milliseconds of an access token, short in case it is stolen, and of a refresh token: a program unused for a month asks
# again.
ACCESS_MS: Final = 15 * 60_000
REFRESH_MS: Final = 30 * 86_400_000
GRANTS_LIMIT: Final = 64
# Characters and entries of what travels in an address, several times over, and must fit into the head of a request.
NAME_CHARS_LIMIT: Final = 100
REDIRECTS_LIMIT: Final = 8
REDIRECT_CHARS_LIMIT: Final = 512
STATE_CHARS_LIMIT: Final = 2_048
CHALLENGE_CHARS: Final = 43

# Verbs of a program that requests none: enough for all tools but exports.
DEFAULT_VERBS: Final = ("read", "write", "derive")
GRANTABLE_VERBS: Final = tuple(verb for verb in SCOPES if verb in TOKEN_VERBS)
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class Client(Sealed, frozen=True, kw_only=True):
    """A program as it registered itself. It is public: it has no secret, and proves itself with PKCE."""

    seal_name: ClassVar[str] = "Client"
    name: str
    redirect_uris: tuple[str, ...]
    # "operator", or "self" for a program that registered itself. Ids issued before this was recorded count as "self".
    registrar: Literal["operator", "self"] = "self"

    def is_accepted(self, registration: Registration) -> bool:
        """Return True if this program may sign in under a setting, whichever setting it registered under."""
        if self.registrar == "operator" or registration == "open":
            return True
        return registration == "on" and all(map(is_loopback, self.redirect_uris))


class AuthorizationRequest(Sealed, frozen=True, kw_only=True):
    """A program's request for access to a person's memory."""

    seal_name: ClassVar[str] = "Asked"
    client_id: str
    redirect_uri: str
    # True if the program stated the redirect URI, and must state it again.
    is_explicit: bool
    state: str | None
    challenge: str
    verbs: tuple[str, ...]
    expires: Instant


class GrantToken(Sealed, frozen=True, kw_only=True):
    """A sealed value that can be exchanged for tokens once: a code, with the request it answers, or a refresh token."""

    seal_name: ClassVar[str] = "Turn"
    grant_id: str
    number: int
    # The SHA-256 digest of the client id it was issued to.
    client: str
    verbs: tuple[str, ...]
    expires: Instant
    redirect_uri: str = ""
    is_explicit: bool = False
    challenge: str = ""


class IssuedTokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that a program gets."""

    access_token: str
    refresh_token: str
    verbs: tuple[str, ...]


class Grants:
    """The OAuth programs: registers them, keeps their requests, and issues what a person approved."""

    def __init__(
        self, gate: Gate, system: System, operator: SigningKey, clock: Callable[[], Instant]
    ) -> None:
        self._gate = gate
        self._system = system
        self._seals = Seals(operator.derive(b"oauth seals"))
        self._clock = clock

    def register(
        self,
        name: str,
        redirect_uris: Sequence[str],
        *,
        registrar: Literal["operator", "self"],
        registration: Registration = "open",
    ) -> str:
        """Return the client id of a program, which contains all that is known about it. Raises InvalidInput.

        Nothing is stored: the client id is the sealed description itself. `registrar` says if the operator or the
        program itself registered.
        """
        if not redirect_uris or len(redirect_uris) > REDIRECTS_LIMIT:
            raise InvalidInput(f"a program names one to {REDIRECTS_LIMIT} redirect URIs")
        for uri in redirect_uris:
            check_redirect(uri)
            if registrar == "self" and registration != "open" and not is_loopback(uri):
                raise InvalidInput(
                    "redirect_uris: only programs on one's own machine may register themselves here"
                )
        if not name.strip() or len(name) > NAME_CHARS_LIMIT or not name.isprintable():
            raise InvalidInput(
                f"client_name: a printable name of at most {NAME_CHARS_LIMIT} characters"
            )
        return self._seals.seal(
            Client(name=name, redirect_uris=tuple(redirect_uris), registrar=registrar)
        )

    def find_client(self, client_id: str, registration: Registration) -> Client | None:
        """Return the program of a client id; None if the id is not from here, or not accepted under this setting."""
        client = self._seals.unseal(client_id, Client)
        return client if client is not None and client.is_accepted(registration) else None

    def seal_request(self, request: AuthorizationRequest) -> str:
        """Return a request as text that travels to the person and back. Raises InvalidInput."""
        if len(request.state or "") > STATE_CHARS_LIMIT:
            raise InvalidInput(f"state: at most {STATE_CHARS_LIMIT} characters")
        if len(request.challenge) != CHALLENGE_CHARS:
            raise InvalidInput("code_challenge: must be a SHA-256, base64url")
        if unknown := sorted(set(request.verbs) - set(GRANTABLE_VERBS)):
            raise InvalidInput(f"scope: there is no {unknown[0][:40]!a}")
        return self._seals.seal(request)

    def open_request(
        self, text: str, registration: Registration
    ) -> tuple[AuthorizationRequest, Client]:
        """Return a sealed request and its program. Raises InvalidInput."""
        request = self._seals.unseal(text, AuthorizationRequest)
        client = None if request is None else self.find_client(request.client_id, registration)
        if request is None or client is None or request.expires <= self._clock():
            raise InvalidInput("this request is invalid or has expired; start again in the program")
        return request, client

    def request_expiry(self) -> Instant:
        """Return the instant at which a request made now expires."""
        return Instant(self._clock() + REQUEST_MS)

    def approve(self, request: AuthorizationRequest, key: str) -> str:
        """Return the code for a program that is approved with an API key. Raises Unauthorized or ForbiddenScope.

        The program gets the verbs that it asked for and the key has. The code is valid for CODE_MS.
        """
        access = self._gate.authenticate(key)
        kind, _, key_id = access.credential.partition(":")
        if kind != "key":
            raise Unauthorized("this is not an API key")
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
        """Return a code or refresh token that a program presents, if it was issued to that program; else None."""
        turn = self._seals.unseal(text, GrantToken)
        if turn is None or is_code != (turn.number == 0):
            return None
        return turn if hmac.compare_digest(turn.client, _digest(client_id)) else None

    def exchange(self, turn: GrantToken, verbs: Collection[str]) -> IssuedTokens:
        """Return new tokens for a code or refresh token, which is valid once. Raises Unauthorized.

        PKCE and the redirect URI of a code are checked by the binding before.
        """
        now = self._clock()
        expires = Instant(now + REFRESH_MS)
        grant = self._system.use_grant(turn.grant_id, turn.number, now=now, expires=expires)
        if grant is None or turn.expires <= now:
            raise Unauthorized("it was used before, or has expired")
        granted = tuple(verb for verb in grant.verbs if verb in verbs)
        jti = GRANT_PREFIX + grant.grant_id
        owner = self._gate.owner_of_grant(jti)
        token = self._gate.mint_token(
            verbs=granted, scope={"owner": owner}, ttl_ms=ACCESS_MS, jti=jti
        )
        next_token = GrantToken(
            grant_id=grant.grant_id,
            number=turn.number + 1,
            client=turn.client,
            verbs=grant.verbs,
            expires=expires,
        )
        return IssuedTokens(
            access_token=token, refresh_token=self._seals.seal(next_token), verbs=granted
        )

    def end_grant(self, grant_id: str) -> None:
        """End a grant with all tokens that were issued for it."""
        self._system.delete_grant(grant_id)


def check_redirect(uri: str) -> None:
    """Raise InvalidInput unless a redirect URI is https, or http on the program's own machine (MCP)."""
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
    """Return True if a redirect URI is one that the program registered; on loopback, at any port (RFC 8252 7.3)."""
    return uri in registered or any(
        _without_port(registered_uri) == _without_port(uri)
        for registered_uri in registered
        if is_loopback(registered_uri) and is_loopback(uri)
    )


def is_loopback(uri: str) -> bool:
    """Return True if a URI leads to a program on the machine of the person who follows it."""
    parts = urlsplit(uri)
    return parts.scheme == "http" and parts.hostname in LOOPBACK


def _without_port(uri: str) -> tuple[str | None, ...]:
    parts = urlsplit(uri)
    return parts.scheme, parts.username, parts.hostname, parts.path, parts.query, parts.fragment


def _digest(client_id: str) -> str:
    """Return the digest of a client id, which may be long."""
    return hashlib.sha256(client_id.encode("utf-8", "surrogatepass")).hexdigest()
