"""SR-1: secrets that a run's vault resolved never reach the store.

`Secrets` knows the exact values and replaces each occurrence by `[REDACTED:<secretId>]`. Markers of other hosts become
ours. Texts that only look like secrets are handled by `detection`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple, NoReturn
from urllib.parse import quote

from memoranda.encoding.detection import Finding, Policy, detect, hide, screen
from memoranda.errors import InvalidInput

__all__ = [
    "MAX_SECRETS",
    "MAX_SECRET_CHARS",
    "MIN_SECRET_CHARS",
    "Finding",
    "Policy",
    "RedactedText",
    "Secrets",
    "convert_markers",
    "detect",
    "format_marker",
    "hide",
    "screen",
]

# Characters. SR-1, reference notes: shorter values occur in ordinary text by chance.
MIN_SECRET_CHARS: Final = 8
# Characters. A private key in PEM has some 3,500; a service account with its key not many more.
MAX_SECRET_CHARS: Final = 65_536
# Secrets of one run. A run resolves a handful, and each costs a search of every text.
MAX_SECRETS: Final = 256
# Characters of all spellings of all secrets of a run, which are held in memory.
MAX_ALL_CHARS: Final = 2 * 1_048_576
# Characters of an id in a marker.
MAX_MARKER_ID_CHARS: Final = 128
# Replacement for an id that must not be shown.
NAMELESS: Final = "secret"

_UNSAFE_ID: Final = re.compile(r"[^A-Za-z0-9._:/@-]+")
_FOREIGN_MARKER: Final = re.compile(
    # Our own marker may be inside, if the foreign marker contained the value itself.
    r"\[BYOK:(\[REDACTED:[^\[\]\r\n]*+\]|[^\[\]\r\n]*+)\]|<REDACTED:([^<>\r\n]*+)>",
    re.IGNORECASE,
)
_OWN_MARKER: Final = re.compile(r"\[REDACTED:[^\[\]\r\n]+\]")


# --- markers -----------------------------------------------------------------------------------------


def format_marker(secret_id: str) -> str:
    """Return `[REDACTED:<secretId>]` with an id that cannot close the marker or break the line."""
    return f"[REDACTED:{_marker_id(secret_id)}]"


def _marker_id(secret_id: str) -> str:
    """Return the id with unsafe characters replaced, cut to its maximum length."""
    return _UNSAFE_ID.sub("_", secret_id)[:MAX_MARKER_ID_CHARS].strip("_") or NAMELESS


def convert_markers(text: str) -> str:
    """Convert the markers of other hosts, `[BYOK:…]` and `<REDACTED:…>`, to ours. None is dropped.

    Redact first, then convert: conversion changes characters of the id, so a value in its place would not be found any
    more.
    """
    if ":" not in text:
        return text
    return _FOREIGN_MARKER.sub(_convert_marker, text)


def _convert_marker(match: re.Match[str]) -> str:
    """Return our marker for a foreign one."""
    label = match[1] if match[1] is not None else match[2]
    if _OWN_MARKER.fullmatch(label):
        return label
    # Some hosts put the value itself in the marker; do not copy it.
    return format_marker(NAMELESS if detect(label) else label)


# --- the values of one run ---------------------------------------------------------------------------


class RedactedText(NamedTuple):
    """A text without its secrets, and the ids of those secrets in order."""

    text: str
    ids: tuple[str, ...]


class _Span(NamedTuple):
    start: int
    end: int
    id: str


class Secrets:
    """The secrets that one run resolved; in memory only, until the run ends.

    Only secrets resolved at user, tenant or run scope belong here, not platform credentials (SR-1, scope).
    """

    __slots__ = ("_ids", "_spellings_by_length")

    def __init__(self) -> None:
        # Pairs (spelling, id) of every value, longest first, so that a longer secret is replaced before a shorter one
        # in it.
        self._spellings_by_length: tuple[tuple[str, str], ...] = ()
        self._ids: tuple[str, ...] = ()

    def register(self, secret_id: str, value: str) -> bool:
        """Add a value under its id; return False if it is too short (below eight characters) to be redacted.

        Raises InvalidInput for a secret that is too long, and beyond the number of secrets of a run.
        """
        secret = value.strip()
        if len(secret) < MIN_SECRET_CHARS:
            return False
        if len(secret) > MAX_SECRET_CHARS:
            raise InvalidInput(f"a secret must have at most {MAX_SECRET_CHARS} characters")
        forms = dict(self._spellings_by_length)
        if secret in forms:
            return True
        if len(self._ids) >= MAX_SECRETS:
            raise InvalidInput(f"a run may resolve at most {MAX_SECRETS} secrets")
        shown_id = _marker_id(secret_id)
        if self.size_chars + sum(map(len, _spellings(secret))) > MAX_ALL_CHARS:
            raise InvalidInput(
                f"the spellings of a run's secrets may have {MAX_ALL_CHARS} characters together"
            )
        for spelling in _spellings(secret):
            forms.setdefault(spelling, shown_id)
        # An id that contains the value of any secret must not be written as a replacement.
        leaking_ids = set()
        for known_id in set(forms.values()):
            if any(spelling in known_id for spelling in forms):
                leaking_ids.add(known_id)
        by_length = sorted(forms.items(), key=lambda pair: (-len(pair[0]), pair[0]))
        self._spellings_by_length = tuple(
            (spelling, NAMELESS if known_id in leaking_ids else known_id)
            for spelling, known_id in by_length
        )
        self._ids = (*self._ids, shown_id)
        return True

    @property
    def size_chars(self) -> int:
        """The number of characters in memory."""
        return sum(
            len(spelling) + len(secret_id) for spelling, secret_id in self._spellings_by_length
        )

    def redact(self, text: str) -> RedactedText:
        """Replace every value by its marker. Overlapping values are removed completely."""
        spans = sorted(self._find_spans(text))
        if not spans:
            return RedactedText(text, ())
        pieces: list[str] = []
        ids: list[str] = []
        position = 0
        for span in spans:
            pieces.append(text[position : span.start])
            pieces.append(f"[REDACTED:{span.id}]")
            ids.append(span.id)
            position = max(position, span.end)
        pieces.append(text[position:])
        return RedactedText("".join(pieces), tuple(dict.fromkeys(ids)))

    def occurs_in(self, text: str) -> bool:
        """Return True if any value occurs in the text, for callers that refuse instead of redacting."""
        return any(spelling in text for spelling, _ in self._spellings_by_length)

    def clear(self) -> None:
        """Remove all values at the end of the run."""
        self._spellings_by_length = ()
        self._ids = ()

    def _find_spans(self, text: str) -> list[_Span]:
        """Find the values, longest first, without those that longer ones cover."""
        spans: list[_Span] = []
        covered = bytearray()
        for spelling, secret_id in self._spellings_by_length:
            start = text.find(spelling)
            while start >= 0:
                end = start + len(spelling)
                covered = covered or bytearray(len(text))
                if covered.find(0, start, end) >= 0:
                    covered[start:end] = b"\1" * (end - start)
                    spans.append(_Span(start, end, secret_id))
                start = text.find(spelling, end)
        return spans

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        return f"<Secrets of {len(self)}>"

    def __reduce__(self) -> NoReturn:
        # Registries exist in process memory only; a copy elsewhere could outlive the run.
        raise TypeError("secrets must not be copied or stored")


def _spellings(value: str) -> Iterator[str]:
    """Yield the value and its forms inside a JSON string or a URL, without duplicates."""
    in_json = json.dumps(value, ensure_ascii=False)[1:-1]
    in_ascii_json = json.dumps(value)[1:-1]
    yield from dict.fromkeys((value, in_json, in_ascii_json, _url_quote(value)))


def _url_quote(value: str) -> str:
    """Return the value as percent-encoded in a URL."""
    return quote(value, safe="", errors="surrogatepass")
