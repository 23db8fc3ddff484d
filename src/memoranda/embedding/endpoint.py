"""An embedder behind an address: anything that speaks the OpenAI interface (`POST …/embeddings`)."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from memoranda.embedding.embedder import unit
from memoranda.errors import InvalidInput, StoreUnavailable

if TYPE_CHECKING:
    from memoranda.embedding.embedder import Embedder, Vector

_SECONDS: Final = 30.0
# The numbers of one vector, written out.
_ANSWER_BYTES: Final = 4 << 20


class Endpoint:
    """Asks for one text at a time."""

    def __init__(self, address: str, model: str, *, key: str = "", prefix: str = "") -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput("embedder must be auto, off, or an address that begins with http:// or https://")
        if not model:
            raise InvalidInput("an embedder behind an address needs the name of its model: embedder_model")
        self.model = f"{model}@{parts.hostname}"
        self._asked_model = model
        self._address = address.rstrip("/") + "/embeddings"
        # For messages: an address may hold a password.
        self._place = parts.netloc.rpartition("@")[2]
        self._key, self._prefix = key, prefix
        # Known after the first answer.
        self._dimensions = 0

    @property
    def other_names(self) -> Sequence[str]:
        return (self._asked_model,)

    @property
    def dimensions(self) -> int:
        return self._dimensions

    @property
    def typical_question(self) -> Vector | None:
        return None

    @property
    def second(self) -> Embedder | None:
        return None

    @property
    def floor(self) -> float:
        return 0.0

    @property
    def line(self) -> float:
        return 0.0

    def of_question(self, text: str, /) -> Vector:
        return self.of_memory(self._prefix + text)

    def of_memory(self, text: str, /) -> Vector:
        body = json.dumps({"model": self._asked_model, "input": [text], "encoding_format": "float"}).encode()
        key = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        headers = {"Content-Type": "application/json", **key}
        request = urllib.request.Request(self._address, body, headers)  # noqa: S310 - http or https, checked above
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
                found = json.loads(answer.read(_ANSWER_BYTES))
            made = unit(found["data"][0]["embedding"])
        except (OSError, urllib.error.URLError) as error:
            raise StoreUnavailable(f"the embedder at {self._place} does not answer: {error}") from error
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise StoreUnavailable(f"the embedder at {self._place} gave something else than a vector") from error
        self._dimensions = len(made)
        return made
