"""OAuth 2.1 for MCP over HTTP: how a program finds the authorization server, and a person approves the program.

As MCP's authorization requires (2025-06-18 and later), the endpoint is a protected resource (RFC 9728), and this server
is its authorization server (RFC 8414): a code with PKCE (S256), a resource that must be ours (RFC 8707), refresh tokens
that are valid once, `iss` in every answer (RFC 9207), and dynamic registration (RFC 7591) if the setting allows it. The
person approves by pasting an API key into a page without scripts.

The handlers are those of MCP's own SDK. They call `_Provider`, which passes on to `service/core/sign_in.py`, where the
rules are. Around them stand the limits for clients without a credential: requests per address, and bytes of a body.

All URLs in answers begin with the one under which the server was reached, which the guard has checked.
"""

from __future__ import annotations

import html
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from mcp.server.auth.handlers.authorize import AuthorizationHandler
from mcp.server.auth.handlers.register import RegistrationHandler
from mcp.server.auth.handlers.revoke import RevocationHandler
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import ClientAuthenticator
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    RegistrationError,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.shared.auth import InvalidRedirectUriError, OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Message

from memoranda.bindings.http import wire
from memoranda.bindings.http.limits import TokenBuckets
from memoranda.bindings.http.threads import Threads
from memoranda.errors import ForbiddenScope, InvalidInput, RateLimited, Unauthorized
from memoranda.service.core.access import GRANT_AUDIENCE, SCOPES
from memoranda.service.core.sign_in import (
    ACCESS_MS,
    DEFAULT_VERBS,
    GRANTABLE_VERBS,
    LOOPBACK,
    AuthorizationRequest,
    Client,
    Grants,
    GrantToken,
    IssuedTokens,
    Registration,
    is_loopback,
    is_registered_redirect,
)
from memoranda.service.service import Service

AUTHORIZE: Final = "/oauth/authorize"
CONSENT: Final = "/oauth/consent"
EXCHANGE: Final = "/oauth/token"
REGISTER: Final = "/oauth/register"
REVOKE: Final = "/oauth/revoke"
AUTHORIZATION_SERVER: Final = "/.well-known/oauth-authorization-server"

# Requests per second and address, and at once: stops a program that guesses, not a person.
RATE, BURST = 20.0, 40.0
# Bytes of a body; registrations and token requests are far smaller.
BODY_BYTES_LIMIT: Final = 32_768
# Threads for exchanges and approvals, which write to the store.
OAUTH_THREADS: Final = 2
# The authentication method of a program without a secret at the token endpoint.
PUBLIC: Final = "none"

Handler = Callable[[Request], Awaitable[Response]]


class _RegisteredProgram(OAuthClientInformationFull):
    """A program as the SDK represents it, with our own check of redirect URIs."""

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        """Return the redirect URI of a request if it was registered. Raises InvalidRedirectUriError."""
        registered = tuple(map(str, self.redirect_uris or ()))
        if redirect_uri is not None and not is_registered_redirect(registered, str(redirect_uri)):
            raise InvalidRedirectUriError("redirect_uri is not one of those that were registered")
        return redirect_uri if redirect_uri is not None else super().validate_redirect_uri(None)


class _Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """The answers to the SDK's handlers, for one request."""

    def __init__(
        self, grants: Grants, threads: Threads, base: str, registration: Registration
    ) -> None:
        self._grants = grants
        self._threads = threads
        self._base = base
        self._registration = registration

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        """Return a registered program; None if there is none with this id."""
        client = self._grants.find_client(client_id, self._registration)
        if client is None:
            return None
        return _RegisteredProgram(
            client_id=client_id,
            redirect_uris=[AnyUrl(uri) for uri in client.redirect_uris],
            token_endpoint_auth_method=PUBLIC,
            scope=" ".join(GRANTABLE_VERBS),
        )

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Register a program, and replace its metadata by what was granted, as RFC 7591 3.2.1 allows.

        Every program is public, so it gets no secret. Its id holds its sealed registration.
        """
        try:
            redirect_uris = [str(uri) for uri in client_info.redirect_uris or ()]
            name = client_info.client_name or "a program without a name"
            client_info.client_id = self._grants.register(
                name, redirect_uris, registrar="self", registration=self._registration
            )
        except InvalidInput as error:
            is_redirect = error.message.startswith("redirect")
            raise RegistrationError(
                "invalid_redirect_uri" if is_redirect else "invalid_client_metadata", error.message
            ) from None
        client_info.token_endpoint_auth_method = PUBLIC
        client_info.client_secret = client_info.client_secret_expires_at = None
        client_info.scope = " ".join(GRANTABLE_VERBS)

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        """Return the URL of the consent page, with the request sealed in it. Raises AuthorizeError."""
        if not is_mcp_endpoint(params.resource, self._base):
            raise AuthorizeError("invalid_target", "resource is not this server's MCP endpoint")
        authorization = AuthorizationRequest(
            client_id=client.client_id,
            redirect_uri=str(params.redirect_uri),
            is_explicit=params.redirect_uri_provided_explicitly,
            state=params.state,
            challenge=params.code_challenge,
            verbs=tuple(params.scopes or DEFAULT_VERBS),
            expires=self._grants.request_expiry(),
        )
        try:
            return construct_redirect_uri(
                self._base + CONSENT, request=self._grants.seal_request(authorization)
            )
        except InvalidInput as error:
            raise AuthorizeError("invalid_request", error.message) from None

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        """Return a code that is valid for this program; None if it is not."""
        token = self._grants.open_token(authorization_code, client.client_id, is_code=True)
        if token is None:
            return None
        return AuthorizationCode(
            code=authorization_code,
            scopes=list(token.verbs),
            expires_at=token.expires / 1000,
            client_id=client.client_id,
            code_challenge=token.challenge,
            redirect_uri=AnyUrl(token.redirect_uri),
            redirect_uri_provided_explicitly=token.is_explicit,
        )

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        """Exchange a code for tokens. Raises TokenError."""
        token = self._grants.open_token(authorization_code.code, client.client_id, is_code=True)
        return await self._exchange(token, authorization_code.scopes)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        """Return a refresh token that is valid for this program; None if it is not."""
        token = self._grants.open_token(refresh_token, client.client_id, is_code=False)
        if token is None:
            return None
        return RefreshToken(
            token=refresh_token,
            client_id=client.client_id,
            scopes=list(token.verbs),
            expires_at=token.expires // 1000,
            subject=token.grant_id,
        )

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        """Exchange a refresh token for new tokens. Using one twice revokes its grant. Raises TokenError."""
        token = self._grants.open_token(refresh_token.token, client.client_id, is_code=False)
        return await self._exchange(token, scopes)

    async def _exchange(self, token: GrantToken | None, verbs: Sequence[str]) -> OAuthToken:
        """Exchange a code or refresh token for new tokens. Raises TokenError if it was used before."""
        assert token is not None, "it was loaded just before"
        try:
            granted: IssuedTokens = await self._threads.run(self._grants.exchange, token, verbs)
        except Unauthorized as error:
            raise TokenError("invalid_grant", error.message) from None
        return OAuthToken(
            access_token=granted.access_token,
            expires_in=ACCESS_MS // 1000,
            scope=" ".join(granted.verbs),
            refresh_token=granted.refresh_token,
        )

    async def load_access_token(self, token: str) -> AccessToken | None:  # noqa: ARG002
        """Return None: an access token does not name its program, so only a refresh token can revoke a grant."""
        return None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        """Revoke the grant of a refresh token."""
        await self._threads.run(self._grants.end_grant, token.subject or "")


class OAuth:
    """The routes of OAuth, which need no credential. Enter `running` in the lifespan of the application."""

    def __init__(
        self,
        service: Service,
        registration: Registration,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._grants = service.grants
        self._registration = registration
        self._threads = Threads(OAUTH_THREADS, "memoranda-oauth")
        self._rates = TokenBuckets(rate=RATE, burst=BURST, clock=clock)

    @property
    def routes(self) -> Sequence[Route]:
        """The metadata documents, and the endpoints of authorization."""
        posts: dict[str, Handler] = {EXCHANGE: self._token, REVOKE: self._revoke}
        if self._registration != "known":
            posts[REGISTER] = self._register
        resource = (wire.PROTECTED_RESOURCE, wire.PROTECTED_RESOURCE + GRANT_AUDIENCE)
        return [
            *(Route(path, self._resource_metadata, methods=["GET"]) for path in resource),
            Route(AUTHORIZATION_SERVER, self._server_metadata, methods=["GET"]),
            Route(AUTHORIZE, self._authorize, methods=["GET"]),
            Route(CONSENT, self._consent, methods=["GET", "POST"]),
            *(
                Route(path, self._with_limits(handler), methods=["POST"])
                for path, handler in posts.items()
            ),
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the threads of OAuth, and end them with the application."""
        try:
            yield
        finally:
            self._threads.close()

    def _with_limits(self, handler: Handler) -> Handler:
        """Return a handler with the limits for strangers in front of it."""

        async def handle_within_limits(request: Request) -> Response:
            return await handler(await self._receive(request))

        return handle_within_limits

    async def _receive(self, request: Request) -> Request:
        """Return a request with its body received. Raises RateLimited, TooLarge and InvalidInput."""
        client = request.client
        if wait := self._rates.take(client.host if client else ""):
            raise RateLimited(retry_after_seconds=wait)
        if request.headers.get("content-type", "").lower().startswith("multipart/"):
            # RFC 6749 4.1.3. The SDK fails on those without a boundary.
            raise InvalidInput("send the fields as application/x-www-form-urlencoded")
        wire.check_length(request.scope, BODY_BYTES_LIMIT)
        body = await wire.read_body(wire.limit_body(request.receive, BODY_BYTES_LIMIT))

        async def receive_again() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        return Request(request.scope, receive_again)

    def _provider(self, request: Request) -> _Provider:
        """Return the provider for the URL by which this request came."""
        return _Provider(self._grants, self._threads, issuer_url(request), self._registration)

    async def _resource_metadata(self, request: Request) -> Response:
        """Return the metadata of the protected resource (RFC 9728)."""
        base = issuer_url(request)
        return JSONResponse(
            {
                "resource": base + GRANT_AUDIENCE,
                "authorization_servers": [base],
                "scopes_supported": list(DEFAULT_VERBS),
                "bearer_methods_supported": ["header"],
                "resource_name": "Memoranda",
            }
        )

    async def _server_metadata(self, request: Request) -> Response:
        """Return the metadata of the authorization server (RFC 8414)."""
        base = issuer_url(request)
        document = {
            "issuer": base,
            "authorization_endpoint": base + AUTHORIZE,
            "token_endpoint": base + EXCHANGE,
            "revocation_endpoint": base + REVOKE,
            "scopes_supported": list(GRANTABLE_VERBS),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": [PUBLIC],
            "revocation_endpoint_auth_methods_supported": [PUBLIC],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        if self._registration != "known":
            document["registration_endpoint"] = base + REGISTER
        return JSONResponse(document)

    async def _register(self, request: Request) -> Response:
        """Register a program (RFC 7591)."""
        return await RegistrationHandler(
            self._provider(request), ClientRegistrationOptions()
        ).handle(request)

    async def _authorize(self, request: Request) -> Response:
        """Check an authorization request, and redirect to the consent page or back to the program."""
        base = issuer_url(request)
        # RFC 6749 3.1: no parameter may occur twice; this raises InvalidInput.
        wire.parse_query(request.scope)
        answer = await AuthorizationHandler(self._provider(request)).handle(request)
        location = answer.headers.get("location", base)
        if location.startswith(base):
            return answer
        # RFC 9207: a refusal names the issuer, too.
        return RedirectResponse(construct_redirect_uri(location, iss=base), 302)

    async def _token(self, request: Request) -> Response:
        """Exchange a code or a refresh token for tokens, if the resource is ours."""
        provider = self._provider(request)
        form = await request.form()
        if len(form) != len(form.multi_items()):
            return _token_error("invalid_request", "a field is given twice")
        # RFC 8707 2.2; the SDK does not check the resource.
        if not is_mcp_endpoint(form.get("resource"), issuer_url(request)):
            return _token_error("invalid_target", "resource is not this server's MCP endpoint")
        answer: Response = await TokenHandler(provider, ClientAuthenticator(provider)).handle(
            request
        )
        return answer

    async def _revoke(self, request: Request) -> Response:
        """Revoke the grant of a refresh token (RFC 7009)."""
        provider = self._provider(request)
        return await RevocationHandler(provider, ClientAuthenticator(provider)).handle(request)

    async def _consent(self, request: Request) -> Response:
        """Show the page on which a person approves a program, or handle its form."""
        base = issuer_url(request)
        fields: object = request.query_params
        if request.method == "POST":
            request = await self._receive(request)
            fields = await request.form()
        sealed_text = _field_text(fields, "request")
        try:
            authorization, client = self._grants.open_request(sealed_text, self._registration)
        except InvalidInput as error:
            return _html_page(f"<p>{html.escape(error.message)}</p>", 400)
        if request.method == "GET":
            return _consent_page(sealed_text, authorization, client)
        if _field_text(fields, "answer") != "allow":
            return _redirect_to_program(authorization, base, error="access_denied")
        try:
            code = await self._threads.run(
                self._grants.approve, authorization, _field_text(fields, "key").strip()
            )
        except Unauthorized:
            return _consent_page(
                sealed_text,
                authorization,
                client,
                "This key is not known here, or was revoked. Was it pasted whole?",
            )
        except ForbiddenScope as error:
            return _consent_page(sealed_text, authorization, client, error.message)
        return _redirect_to_program(authorization, base, code=code)


def issuer_url(request: Request) -> str:
    """Return the URL by which the server was reached. Raises ForbiddenScope without TLS (OAuth 2.1 1.5)."""
    base = wire.base_url(request.scope)
    parts = urlsplit(base)
    if parts.scheme != "https" and parts.hostname not in LOOPBACK:
        raise ForbiddenScope("OAuth needs https, except on the machine itself")
    return base


def is_mcp_endpoint(resource: object, base: str) -> bool:
    """Return True if the resource is the MCP endpoint. No resource means it, too: there is no other."""
    if resource is None:
        return True
    if not isinstance(resource, str):
        return False
    scheme, mark, authority = resource.partition("://")
    host, slash, path = authority.partition("/")
    return f"{scheme.lower()}{mark}{host.lower()}{slash}{path}".rstrip("/") == base + GRANT_AUDIENCE


def _field_text(fields: Any, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _token_error(error: str, description: str) -> Response:
    return JSONResponse({"error": error, "error_description": description}, 400)


def _redirect_to_program(
    authorization: AuthorizationRequest, base: str, **decision: str
) -> Response:
    """Return the redirect to the program, with the decision. 303 drops the form, so that the key is not sent along."""
    return RedirectResponse(
        construct_redirect_uri(
            authorization.redirect_uri, **decision, state=authorization.state, iss=base
        ),
        303,
    )


def _consent_page(
    sealed_text: str, authorization: AuthorizationRequest, client: Client, wrong: str = ""
) -> Response:
    """Return the page that asks the person. `wrong` says why the last attempt failed."""
    target = urlsplit(authorization.redirect_uri)
    receiver = f"{target.scheme}://{target.netloc}"
    if is_loopback(authorization.redirect_uri):
        receiver = "a program on this machine"
    verbs = "".join(
        f"<li><b>{verb}</b>: {html.escape(SCOPES[verb])}</li>" for verb in authorization.verbs
    )
    complaint = f'<p class="wrong">{html.escape(wrong)}</p>' if wrong else ""
    return _html_page(
        f"<h1>Let a program use your memory?</h1><p>It calls itself <b>{html.escape(client.name)}</b>, which nobody "
        f"has checked. The answer goes to <b>{html.escape(receiver)}</b> ({html.escape(target.netloc)}).</p>"
        f"<p>It asks to:</p><ul>{verbs}</ul>{complaint}"
        f'<form method="post" action="{CONSENT}">'
        f'<input type="hidden" name="request" value="{html.escape(sealed_text)}">'
        "<label>An API key of yours (<code>memoranda key add</code>). The program does not get it, and can do no more "
        'than the key can; revoking the key ends it.<input type="password" name="key" autocomplete="off" required '
        'autofocus></label><button name="answer" value="allow">Allow</button>'
        '<button name="answer" value="deny" formnovalidate>Deny</button></form>',
        403 if wrong else 200,
        target.netloc,
    )


def _html_page(body: str, status: int, target: str | None = None) -> Response:
    """Return a page whose form may go to this server and, redirected, to the target."""
    forms = "'none'"
    if target is not None:
        # Browsers apply the policy to the redirect after the form, too. It cannot express IPv6 addresses.
        forms = "*" if "[" in target else f"'self' http://{target} https://{target}"
    return HTMLResponse(
        wire.render_page("let a program in", body), status, wire.page_headers(forms)
    )
