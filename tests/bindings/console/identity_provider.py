"""A provider of OpenID Connect that says what a test wants it to say, over real sockets and with real keys."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

CLIENT = "memoranda"


@dataclass
class Key:
    """A signing key with its id."""

    kid: str
    private: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def public(self) -> dict[str, Any]:
        return {
            **json.loads(ECAlgorithm.to_jwk(self.private.public_key())),
            "kid": self.kid,
            "use": "sig",
            "alg": "ES256",
        }


@dataclass
class IdentityProvider:
    """What the provider answers. Tests change it between requests."""

    issuer: str = ""
    keys: list[Key] = field(default_factory=lambda: [Key("first")])
    # Changes of the metadata, of the claims of the next ID token, and of the user information.
    metadata: dict[str, Any] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    information: dict[str, Any] = field(default_factory=dict)
    # A token instead of the one that it would sign, and a status other than 200 at the token endpoint.
    id_token: str | None = None
    token_status: int = 200
    # The latest authorization request, the requests at the token endpoint, and the reads of the keys.
    request: dict[str, str] = field(default_factory=dict)
    exchanges: list[dict[str, str]] = field(default_factory=list)
    key_reads: int = 0

    def describe(self) -> dict[str, Any]:
        issuer = self.issuer
        return {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/auth",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/jwks",
            "userinfo_endpoint": f"{issuer}/me",
            "end_session_endpoint": f"{issuer}/end",
            **self.metadata,
        }

    def sign(self, key: Key | None = None, **changes: Any) -> str:
        """An ID token for the latest request; a change to None leaves a claim out."""
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": "ada-1",
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": self.request.get("nonce", ""),
            "name": "Ada",
            "groups": ["admins"],
            **self.claims,
            **changes,
        }
        key = key or self.keys[-1]
        stated = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(stated, key.private, "ES256", headers={"kid": key.kid})

    def answer(self, method: str, path: str, body: dict[str, str], bearer: str) -> tuple[int, dict[str, Any]]:
        if path == "/.well-known/openid-configuration":
            return 200, self.describe()
        if path == "/jwks":
            self.key_reads += 1
            return 200, {"keys": [key.public for key in self.keys]}
        if path == "/me" and bearer == "Bearer at":
            return 200, {"sub": "ada-1", "groups": ["admins"], **self.information}
        if (method, path) == ("POST", "/token"):
            self.exchanges.append(body)
            digest = hashlib.sha256(body.get("code_verifier", "").encode()).digest()
            is_proven = base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == self.request.get("code_challenge")
            if self.token_status != 200 or not is_proven:
                return 400, {"error": "invalid_grant"}
            return 200, {"id_token": self.id_token or self.sign(), "access_token": "at", "token_type": "Bearer"}
        return 404, {}


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    provider = IdentityProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("content-length", 0))
            fields = parse_qs(self.rfile.read(length).decode())
            body = {name: values[0] for name, values in fields.items()}
            status, document = provider.answer(
                self.command, urlsplit(self.path).path, body, self.headers.get("authorization", "")
            )
            data = json.dumps(document).encode()
            self.send_response(status)
            if "location" in document:
                self.send_header("location", document["location"])
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET  # noqa: N815 -- the name that the standard library calls

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
