"""What this installation said, as it travels through other hands and back: sealed, so nothing need be kept of it."""

from __future__ import annotations

import hmac
from typing import Final, TypeVar

import msgspec

from memoranda.encoding.bases import base64url_decode, base64url_encode

SEALED_CHARS_LIMIT: Final = 16_384

T = TypeVar("T", bound=msgspec.Struct)


class Seals:
    """Seals values with a key. One kind is never taken for another."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, value: msgspec.Struct) -> str:
        body = msgspec.json.encode(value)
        return f"{base64url_encode(body)}.{base64url_encode(self._mac(type(value), body))}"

    def unseal(self, text: str, kind: type[T]) -> T | None:
        """What was sealed; None of what was not, or not here."""
        body_text, _, seal = text.partition(".")
        if len(text) > SEALED_CHARS_LIMIT:
            return None
        try:
            body, given = base64url_decode(body_text), base64url_decode(seal)
        except ValueError:
            return None
        if not hmac.compare_digest(given, self._mac(kind, body)):
            return None
        return msgspec.json.decode(body, type=kind)

    def _mac(self, kind: type[msgspec.Struct], body: bytes) -> bytes:
        return hmac.digest(self._key, kind.__name__.encode() + b"\0" + body, "sha256")
