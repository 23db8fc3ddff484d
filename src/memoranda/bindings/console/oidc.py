"""Signing in to the console with an account of a provider (OpenID Connect, authorization code with PKCE).

A sign-in is begun with three random values: `state` ties the answer to the browser that asked, `nonce` ties the ID
token to it, and the verifier ties the code to it (PKCE). They travel in a sealed cookie that only this browser has, so
nothing is stored for strangers. Each sign-in can be completed once.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Mapping
from typing import ClassVar, Final
from urllib.parse import urlsplit

from memoranda.bindings.console.oidc_provider import Provider
from memoranda.bindings.console.visit import ROOT
from memoranda.encoding.bases import base64url_encode
from memoranda.errors import Unauthorized
from memoranda.model.instant import Instant
from memoranda.service.core.people import Person, ProviderSettings
from memoranda.service.core.sign_in import Sealed, Seals
from memoranda.service.service import Service

# Milliseconds in which a person signs in at the provider.
PENDING_MS: Final = 10 * 60_000
# Characters of a person's name, which the session's cookie holds.
_NAME_CHARS: Final = 100
# Groups that the session's cookie holds.
_GROUPS_LIMIT: Final = 32
# Completed sign-ins that this process remembers. The oldest are forgotten; their cookies have expired by then.
_COMPLETED_LIMIT: Final = 10_000


class PendingSignIn(Sealed, frozen=True, kw_only=True):
    """A sign-in that was begun in one browser."""

    seal_name: ClassVar[str] = "PendingSignIn"
    state: str
    nonce: str
    verifier: str
    return_to: str
    target: str
    expires: Instant


class Accounts:
    """The sign-ins with accounts of one provider."""

    def __init__(
        self, service: Service, settings: ProviderSettings, provider: Provider | None = None
    ) -> None:
        self._service = service
        self._provider = provider or Provider(settings)
        self._seals = Seals(service.context.operator.derive(b"oidc seals"))
        self._lock = threading.Lock()
        # States of completed sign-ins, oldest first.
        self._completed: dict[str, None] = {}
        # Shown on the button.
        self.name = urlsplit(settings.issuer).hostname or settings.issuer

    def begin(self, target: str, return_to: str) -> tuple[str, str]:
        """Return the provider's address for a new sign-in, and the cookie that the browser holds meanwhile."""
        pending = PendingSignIn(
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            return_to=return_to,
            target=target,
            expires=Instant(self._service.context.clock() + PENDING_MS),
        )
        challenge = base64url_encode(hashlib.sha256(pending.verifier.encode()).digest())
        address = self._provider.authorization_url(
            redirect_uri=return_to,
            state=pending.state,
            nonce=pending.nonce,
            code_challenge=challenge,
            code_challenge_method="S256",
        )
        return address, self._seals.seal(pending)

    def target_of(self, cookie: str) -> str:
        """Return the page that a sign-in leads to."""
        pending = self._seals.unseal(cookie, PendingSignIn)
        return f"{ROOT}/" if pending is None else pending.target

    def finish(self, cookie: str, answer: Mapping[str, str]) -> str:
        """Return the sealed session of the person whom the provider's answer is about. Raises Unauthorized."""
        pending = self._seals.unseal(cookie, PendingSignIn)
        state = answer.get("state", "")
        if pending is None or not hmac.compare_digest(pending.state.encode(), state.encode()):
            raise Unauthorized("this answer belongs to no sign-in that this browser began (state)")
        if pending.expires <= self._service.context.clock():
            raise Unauthorized("the sign-in took too long; begin again")
        self._complete_once(state)
        self._check_issuer(answer)
        if "error" in answer or not answer.get("code"):
            raise Unauthorized("the provider did not sign you in")
        tokens = self._provider.exchange(
            answer["code"], verifier=pending.verifier, redirect_uri=pending.return_to
        )
        claims = self._provider.verify_id_token(tokens.id_token, nonce=pending.nonce)
        groups = self._provider.read_groups(claims, tokens)
        name = next(
            (
                value
                for claim in ("name", "preferred_username", "email", "sub")
                if isinstance(value := claims.get(claim), str) and value
            ),
            "",
        )
        people = self._service.context.people
        person = Person(
            issuer=claims["iss"],
            subject=claims["sub"],
            name=name[:_NAME_CHARS],
            groups=() if people is None else people.select_groups(groups)[:_GROUPS_LIMIT],
        )
        return self._service.sessions.sign_in_person(person, state)

    def end_session_url(self, return_to: str) -> str:
        """Return the address that ends the session at the provider; empty if there is none."""
        return self._provider.end_session_url(return_to)

    def end_sessions(self, logout_token: str) -> int:
        """End the sessions of the person whom a logout token of the provider names. Raises Unauthorized."""
        subject = self._provider.verify_logout_token(logout_token)
        person = Person(issuer=self._provider.settings.issuer, subject=subject, name="", groups=())
        return self._service.sessions.end_sessions_of(person.key_id)

    def _complete_once(self, state: str) -> None:
        """Raise Unauthorized if a sign-in was completed before, successfully or not."""
        with self._lock:
            if state in self._completed:
                raise Unauthorized("this sign-in was completed before; begin again")
            self._completed[state] = None
            if len(self._completed) > _COMPLETED_LIMIT:
                del self._completed[next(iter(self._completed))]

    def _check_issuer(self, answer: Mapping[str, str]) -> None:
        """Raise Unauthorized if the answer is from another provider (RFC 9207)."""
        metadata = self._provider.metadata()
        is_required = metadata.authorization_response_iss_parameter_supported
        if answer.get("iss", "" if is_required else metadata.issuer) != metadata.issuer:
            raise Unauthorized("the answer is from another provider (iss)")
