"""Requests to the HTTP endpoint of a language model: one JSON document there, one back, limited in size and time."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlsplit

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput

# Errors of a request, for callers that go on without an answer.
FAILURES: Final = (OSError, HTTPException, InvalidInput, ValueError)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    # A redirect would send the key to another host.
    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def check_url(url: str) -> None:
    """Raise InvalidInput unless a URL can be the base of an API."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidInput(
            "the model's address must be an http or https URL such as http://127.0.0.1:11434/v1"
        )


def post_json(
    url: str,
    document: Mapping[str, object],
    headers: Mapping[str, str],
    *,
    timeout_seconds: float,
    max_bytes: int,
) -> Any:
    """Send a document and return the answer. Raises one of FAILURES. The URL was checked by `check_url`."""
    all_headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
    payload = json_text.dump(document)
    request = urllib.request.Request(url, data=payload, headers=all_headers, method="POST")  # noqa: S310
    opener = urllib.request.build_opener(_NoRedirect)
    with opener.open(request, timeout=timeout_seconds) as answer:
        data: bytes = answer.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise InvalidInput("the model's answer is too large")
    return json_text.parse(data, max_bytes=max_bytes)


def describe_failure(error: Exception) -> str:
    """Return the reason of a failed request as a message."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"the model's endpoint answered {error.code}"
    if isinstance(error, InvalidInput):
        return error.message
    if isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError):
        return "the model's endpoint did not answer in time"
    return "the model's endpoint cannot be reached"
