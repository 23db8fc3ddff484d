"""A provider of OpenID Connect, as its client sees it: discovery, keys, the exchange of a code, and verified tokens.

Nothing that comes from the network or through a browser is believed unverified. Addresses must be https, or http on
this machine; redirects are not followed, and answers have a limit. Tokens are verified with PyJWT, by the keys of the
provider and asymmetric algorithms only. Keys are read again when a token names one that is not known (rotation).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

import jwt
import msgspec

from memoranda.encoding.bases import base64_encode
from memoranda.errors import InvalidInput, MemorandaError, Unauthorized
from memoranda.service.core.people import ProviderSettings

# Bytes of an answer of a provider, and seconds to wait for one.
ANSWER_BYTES: Final = 1_048_576
ANSWER_SECONDS: Final = 10.0
# Seconds for which the provider's description and its keys are not read again.
METADATA_SECONDS: Final = 3_600.0
KEYS_SECONDS: Final = 600.0
# Seconds for which a provider that failed is not asked again: its slowness must not occupy every thread.
FAILURE_SECONDS: Final = 5.0
# Seconds between two reads of the keys for tokens with an unknown key: a stranger must not make us ask at will.
KEYS_RETRY_SECONDS: Final = 10.0
# Seconds by which the clocks of the provider and of this machine may differ.
LEEWAY_SECONDS: Final = 60
# Seconds for which a logout token is accepted after it was issued.
LOGOUT_SECONDS: Final = 600
ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
LOGOUT_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"
_LOOPBACK: Final = frozenset(("localhost", "127.0.0.1", "::1"))


class ProviderUnavailable(MemorandaError):
    """The provider cannot be used right now, or is not set up as this server expects."""

    code = "unavailable"


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a provider's description that we use (OpenID Connect Discovery 1.0)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    end_session_endpoint: str = ""
    authorization_response_iss_parameter_supported: bool = False
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a code."""

    id_token: str
    access_token: str = ""


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: a provider's endpoints are where it says they are."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


class Provider:
    """One provider. Thread-safe; its methods wait for the network."""

    def __init__(
        self,
        settings: ProviderSettings,
        *,
        seconds: Callable[[], float] = time.monotonic,
        opener: OpenerDirector | None = None,
    ) -> None:
        self.settings = settings
        self._seconds = seconds
        self._opener = opener or build_opener(_NoRedirects())
        self._lock = threading.Lock()
        self._metadata: tuple[Metadata, float] | None = None
        # The last failure to read the metadata, and the second until which it stands.
        self._failure: tuple[ProviderUnavailable, float] | None = None
        self._keys: tuple[jwt.PyJWKSet, float] | None = None
        _check_address(settings.issuer, "oidc_issuer")

    def metadata(self) -> Metadata:
        """Return the provider's description. Raises ProviderUnavailable."""
        with self._lock:
            if self._metadata is not None and self._seconds() < self._metadata[1]:
                return self._metadata[0]
            if self._failure is not None and self._seconds() < self._failure[1]:
                raise ProviderUnavailable(self._failure[0].message)
        try:
            metadata = self._read_metadata()
        except ProviderUnavailable as error:
            with self._lock:
                self._failure = error, self._seconds() + FAILURE_SECONDS
            raise
        with self._lock:
            self._metadata = metadata, self._seconds() + METADATA_SECONDS
        return metadata

    def _read_metadata(self) -> Metadata:
        address = f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            metadata = msgspec.convert(self._fetch(address), Metadata)
        except msgspec.ValidationError as error:
            raise ProviderUnavailable(f"the provider's description is not valid: {error}") from None
        if metadata.issuer != self.settings.issuer:
            raise ProviderUnavailable(
                f"the provider states the issuer {metadata.issuer[:200]!r}: set oidc_issuer to exactly this"
            )
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            _check_address(getattr(metadata, name), name)
        for name in ("userinfo_endpoint", "end_session_endpoint"):
            if getattr(metadata, name):
                _check_address(getattr(metadata, name), name)
        return metadata

    def authorization_url(self, **parameters: str) -> str:
        """Return the address to which a person is sent to sign in."""
        fields = {
            "client_id": self.settings.client_id,
            "response_type": "code",
            "scope": " ".join(self.settings.scopes),
            **parameters,
        }
        return _with_query(self.metadata().authorization_endpoint, fields)

    def end_session_url(self, return_to: str) -> str:
        """Return the address that ends the session at the provider; empty if there is none."""
        endpoint = self.metadata().end_session_endpoint
        fields = {"client_id": self.settings.client_id, "post_logout_redirect_uri": return_to}
        return _with_query(endpoint, fields) if endpoint else ""

    def exchange(self, code: str, *, verifier: str, redirect_uri: str) -> Tokens:
        """Return the tokens for a code. Raises Unauthorized if the provider refuses it."""
        metadata, settings = self.metadata(), self.settings
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        methods = metadata.token_endpoint_auth_methods_supported
        if not settings.client_secret:
            fields["client_id"] = settings.client_id
        elif "client_secret_basic" in methods or "client_secret_post" not in methods:
            # RFC 6749 2.3.1: both parts are form-encoded first.
            pair = f"{quote(settings.client_id, safe='')}:{quote(settings.client_secret, safe='')}"
            headers["Authorization"] = f"Basic {base64_encode(pair.encode())}"
        else:
            fields |= {"client_id": settings.client_id, "client_secret": settings.client_secret}
        body = urlencode(fields).encode()
        try:
            answer = self._fetch(metadata.token_endpoint, body, headers, is_refusable=True)
            return msgspec.convert(answer, Tokens)
        except msgspec.ValidationError:
            raise Unauthorized("the provider gave no ID token") from None

    def verify_id_token(self, token: str, *, nonce: str) -> dict[str, Any]:
        """Return the claims of an ID token that was issued for us and for this sign-in. Raises Unauthorized."""
        claims = self._verify(token, required=("iss", "sub", "aud", "exp", "iat"))
        if claims.get("nonce") != nonce:
            raise Unauthorized("the ID token is for another sign-in (nonce)")
        audience = claims["aud"]
        if isinstance(audience, list) and len(audience) > 1 and "azp" not in claims:
            raise Unauthorized("the ID token has several audiences and no authorized party (azp)")
        if claims.get("azp", self.settings.client_id) != self.settings.client_id:
            raise Unauthorized("the ID token was issued to another program (azp)")
        if not isinstance(claims["sub"], str) or not claims["sub"]:
            raise Unauthorized("the ID token names no subject")
        return claims

    def verify_logout_token(self, token: str) -> str:
        """Return the subject whose sessions end (OpenID Connect Back-Channel Logout 1.0). Raises Unauthorized."""
        claims = self._verify(token, required=("iss", "aud", "iat", "jti", "sub"))
        events = claims.get("events")
        if not isinstance(events, dict) or not isinstance(events.get(LOGOUT_EVENT), dict):
            raise Unauthorized("this is not a logout token")
        if "nonce" in claims:
            raise Unauthorized("a logout token has no nonce")
        if claims["iat"] < time.time() - LOGOUT_SECONDS:
            raise Unauthorized("the logout token is too old")
        return str(claims["sub"])

    def read_groups(self, claims: Mapping[str, Any], tokens: Tokens) -> tuple[str, ...]:
        """Return the groups of a person from the ID token, or from the userinfo endpoint if they are not in it.

        Raises Unauthorized if the information of the endpoint is about somebody else.
        """
        name = self.settings.groups_claim
        if name not in claims and self.metadata().userinfo_endpoint and tokens.access_token:
            headers = {"Authorization": f"Bearer {tokens.access_token}"}
            endpoint = self.metadata().userinfo_endpoint
            information = self._fetch(endpoint, headers=headers, is_refusable=True)
            # OpenID Connect Core 5.3.2: it must be about the same person.
            if information.get("sub") != claims["sub"]:
                raise Unauthorized("the provider's user information is about somebody else")
            claims = information
        groups = claims.get(name, ())
        if isinstance(groups, str):
            return (groups,)
        if not isinstance(groups, list | tuple):
            return ()
        return tuple(group for group in groups if isinstance(group, str))

    def _verify(self, token: str, *, required: tuple[str, ...]) -> dict[str, Any]:
        """Return the claims of a token signed by the provider for us. Raises Unauthorized."""
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in ALGORITHMS:
                raise Unauthorized("the token is not signed with a key of the provider (alg)")
            claims: dict[str, Any] = jwt.decode(
                token,
                self._find_key(header),
                algorithms=[header["alg"]],
                audience=self.settings.client_id,
                issuer=self.settings.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": list(required)},
            )
        except jwt.PyJWTError as error:
            raise Unauthorized(f"the provider's token is not valid: {error}") from None
        return claims

    def _find_key(self, header: Mapping[str, Any]) -> jwt.PyJWK:
        """Return the key that a token names. Raises Unauthorized."""
        for is_retry in (False, True):
            matches = [
                key
                for key in self._load_keys(is_retry=is_retry).keys
                if header.get("kid") in (None, key.key_id) and key.public_key_use in (None, "sig")
            ]
            # A token without a key id is accepted only if the choice is clear.
            if len(matches) == 1:
                return matches[0]
        raise Unauthorized("the token was signed with a key that the provider does not have")

    def _load_keys(self, *, is_retry: bool) -> jwt.PyJWKSet:
        """Return the provider's keys, read again if they are old, or if a key is missing and they are not fresh."""
        with self._lock:
            now = self._seconds()
            if self._keys is not None:
                age = now - self._keys[1]
                if age < (KEYS_RETRY_SECONDS if is_retry else KEYS_SECONDS):
                    return self._keys[0]
        try:
            keys = jwt.PyJWKSet.from_dict(self._fetch(self.metadata().jwks_uri))
        except jwt.PyJWTError as error:
            raise ProviderUnavailable(f"the provider's keys cannot be read: {error}") from None
        with self._lock:
            self._keys = keys, self._seconds()
        return keys

    def _fetch(
        self,
        address: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        is_refusable: bool = False,
    ) -> dict[str, Any]:
        """Return the JSON object at an address. Raises ProviderUnavailable, and Unauthorized for a refused request."""
        request = Request(  # noqa: S310 -- its scheme was checked (_check_address)
            address, body, {"Accept": "application/json", **(headers or {})}
        )
        try:
            with self._opener.open(request, timeout=ANSWER_SECONDS) as answer:
                body = answer.read(ANSWER_BYTES + 1)
        except HTTPError as error:
            with error:
                if is_refusable and 400 <= error.code < 500:
                    raise Unauthorized("the provider refused the sign-in; try again") from None
            raise ProviderUnavailable(f"the provider answered HTTP {error.code}") from None
        except (OSError, ValueError) as error:
            raise ProviderUnavailable(f"the provider cannot be reached: {error}") from None
        try:
            document = json.loads(body) if len(body) <= ANSWER_BYTES else None
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise ProviderUnavailable("the provider's answer is not a JSON object")
        return document


def _check_address(address: str, name: str) -> None:
    """Raise InvalidInput unless an address is https, or http on this machine."""
    try:
        parts = urlsplit(address)
        is_valid = bool(parts.hostname) and (
            parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
        )
    except ValueError:
        is_valid = False
    if not is_valid or not address.isascii() or not address.isprintable():
        raise InvalidInput(f"{name}: must be an https address")


def _with_query(address: str, fields: Mapping[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(fields)}"
