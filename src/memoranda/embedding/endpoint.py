"""An embedder on a server with the OpenAI interface (`POST …/embeddings`).

The endpoint is trusted with texts, so it must be chosen by the operator; its answers are not trusted: sizes are limited
and numbers are checked. A failure is reported as StoreUnavailable, after which keyword search goes on.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from memoranda.embedding.embedder import normalize_vector
from memoranda.errors import InvalidInput, StoreUnavailable

if TYPE_CHECKING:
    from memoranda.embedding.embedder import Embedder, Vector

# Seconds to wait for a response.
_TIMEOUT_SECONDS: Final = 30.0
# Bytes of a response: one vector in decimal.
_RESPONSE_BYTES: Final = 4 << 20


class Endpoint:
    """A client of an embedding server; it sends one text per request."""

    def __init__(self, address: str, model: str, *, key: str = "", prefix: str = "") -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(
                "embedder must be auto, off, the name of a model of `memoranda models list`, or an address that begins "
                "with http:// or https://"
            )
        if not model:
            raise InvalidInput(
                "an embedder address needs the name of its model; set embedder_model"
            )
        self.model = f"{model}@{parts.hostname}"
        self._requested_model = model
        self._address = address.rstrip("/") + "/embeddings"
        # The host for messages: the complete address may hold a password.
        self._host = parts.netloc.rpartition("@")[2]
        self._key, self._prefix = key, prefix
        # Known after the first response.
        self._dimensions = 0

    @property
    def other_names(self) -> Sequence[str]:
        """The model's name without the host."""
        return (self._requested_model,)

    @property
    def dimensions(self) -> int:
        """The number of dimensions; 0 before the first response."""
        return self._dimensions

    @property
    def typical_question(self) -> Vector | None:
        """Always None: unknown for a remote model."""
        return None

    @property
    def second(self) -> Embedder | None:
        """Always None: there is no second model."""
        return None

    @property
    def is_word(self) -> Callable[[str], bool] | None:
        """Always None: the vocabulary of a remote model is unknown."""
        return None

    @property
    def languages(self) -> Mapping[str, float] | None:
        """Always None: a remote model is trusted in every language."""
        return None

    @property
    def floor(self) -> float:
        """Always 0: no relevance threshold is known."""
        return 0.0

    @property
    def line(self) -> float:
        """Always 0: no minimum similarity is known."""
        return 0.0

    def of_question(self, text: str, /) -> Vector:
        """Return the vector of a question, with its prefix. Raises StoreUnavailable."""
        return self.of_memory(self._prefix + text)

    def of_memory(self, text: str, /) -> Vector:
        """Return the vector of a text. Raises StoreUnavailable."""
        body = json.dumps(
            {"model": self._requested_model, "input": [text], "encoding_format": "float"}
        ).encode()
        key = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        headers = {"Content-Type": "application/json", **key}
        request = urllib.request.Request(self._address, body, headers)  # noqa: S310 - http or https, checked above
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
                body_json = json.loads(answer.read(_RESPONSE_BYTES))
            vector = normalize_vector(body_json["data"][0]["embedding"])
        except (OSError, urllib.error.URLError) as error:
            raise StoreUnavailable(
                f"the embedder at {self._host} does not answer: {error}"
            ) from error
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise StoreUnavailable(f"the embedder at {self._host} returned no vector") from error
        self._dimensions = len(vector)
        return vector
