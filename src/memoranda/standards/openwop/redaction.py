"""SR-1: what a run's vault resolved never reaches the store.

`Secrets` knows the very values and replaces them, wherever they stand, by `[REDACTED:<secretId>]`. Markers of other
hosts become ours. What merely looks like a secret is the business of `detection`.
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
    "Redacted",
    "Secrets",
    "convert_markers",
    "detect",
    "hide",
    "marker",
    "screen",
]

# SR-1, reference notes: values below eight characters stand in ordinary text by chance.
MIN_SECRET_CHARS: Final = 8
# A private key in PEM has some 3,500 characters; a service account with its key not many more.
MAX_SECRET_CHARS: Final = 65_536
# A run resolves a handful; each costs a search through every text.
MAX_SECRETS: Final = 256
# Of all spellings of all secrets of a run: they are kept in memory.
MAX_ALL_CHARS: Final = 2 * 1_048_576
MAX_MARKER_ID_CHARS: Final = 128
# What stands for an id that cannot be shown.
NAMELESS: Final = "secret"

_UNSAFE_ID: Final = re.compile(r"[^A-Za-z0-9._:/@-]+")
_FOREIGN_MARKER: Final = re.compile(
    # Our own marker may stand inside: what was marked by its value has lost it by now.
    r"\[BYOK:(\[REDACTED:[^\[\]\r\n]*+\]|[^\[\]\r\n]*+)\]|<REDACTED:([^<>\r\n]*+)>",
    re.IGNORECASE,
)
_OWN_MARKER: Final = re.compile(r"\[REDACTED:[^\[\]\r\n]+\]")


# --- markers -----------------------------------------------------------------------------------------


def marker(secret_id: str) -> str:
    """`[REDACTED:<secretId>]`, with an id that cannot close the marker or break the line."""
    return f"[REDACTED:{_marker_id(secret_id)}]"


def _marker_id(secret_id: str) -> str:
    return _UNSAFE_ID.sub("_", secret_id)[:MAX_MARKER_ID_CHARS].strip("_") or NAMELESS


def convert_markers(text: str) -> str:
    """The text with markers of other hosts, `[BYOK:…]` and `<REDACTED:…>`, as ours. None is dropped.

    Redact first, then convert: an id is made safe to show, and a value that stood there would no longer be known.
    """
    if ":" not in text:
        return text
    return _FOREIGN_MARKER.sub(_converted, text)


def _converted(match: re.Match[str]) -> str:
    label = match[1] if match[1] is not None else match[2]
    if _OWN_MARKER.fullmatch(label):
        return label
    # A host that marked by the value instead of by its name is not to be helped along.
    return marker(NAMELESS if detect(label) else label)


# --- the values of one run ---------------------------------------------------------------------------


class Redacted(NamedTuple):
    """A text without its secrets, and the ids of those that stood in it, in order."""

    text: str
    ids: tuple[str, ...]


class _Span(NamedTuple):
    start: int
    end: int
    id: str


class Secrets:
    """The secrets that one run resolved: in memory only, gone with the run.

    Only what was resolved at user, tenant or run scope belongs here; platform credentials do not (SR-1, scope).
    """

    __slots__ = ("_forms", "_ids")

    def __init__(self) -> None:
        # Every spelling of every value, the longest first: a longer secret that contains a shorter one goes whole.
        self._forms: tuple[tuple[str, str], ...] = ()
        self._ids: tuple[str, ...] = ()

    def register(self, secret_id: str, value: str) -> bool:
        """Remember a value under its id. False: it is shorter than eight characters and will not be redacted."""
        plain = value.strip()
        if len(plain) < MIN_SECRET_CHARS:
            return False
        if len(plain) > MAX_SECRET_CHARS:
            raise InvalidInput(f"a secret must have at most {MAX_SECRET_CHARS} characters")
        forms = dict(self._forms)
        if plain in forms:
            return True
        if len(self._ids) >= MAX_SECRETS:
            raise InvalidInput(f"a run may resolve at most {MAX_SECRETS} secrets")
        shown_id = _marker_id(secret_id)
        if self.chars + sum(map(len, _spellings(plain))) > MAX_ALL_CHARS:
            raise InvalidInput(f"the spellings of a run's secrets may have {MAX_ALL_CHARS} characters together")
        for spelling in _spellings(plain):
            forms.setdefault(spelling, shown_id)
        # An id may be a secret's value, its own or another's; then it must not be what we write instead.
        telling = {each for each in set(forms.values()) if any(spelling in each for spelling in forms)}
        self._forms = tuple(
            (spelling, NAMELESS if each in telling else each)
            for spelling, each in sorted(forms.items(), key=lambda pair: (-len(pair[0]), pair[0]))
        )
        self._ids = (*self._ids, shown_id)
        return True

    @property
    def chars(self) -> int:
        """How much is remembered, in characters."""
        return sum(len(spelling) + len(shown) for spelling, shown in self._forms)

    def redact(self, text: str) -> Redacted:
        """Replace every value by its marker. Where values overlap, all that any of them covers goes."""
        spans = sorted(self._spans(text))
        if not spans:
            return Redacted(text, ())
        pieces: list[str] = []
        ids: list[str] = []
        at = 0
        for span in spans:
            pieces.append(text[at : span.start])
            pieces.append(f"[REDACTED:{span.id}]")
            ids.append(span.id)
            at = max(at, span.end)
        pieces.append(text[at:])
        return Redacted("".join(pieces), tuple(dict.fromkeys(ids)))

    def is_in(self, text: str) -> bool:
        """Whether any value stands in the text, for callers that would rather refuse than redact."""
        return any(spelling in text for spelling, _ in self._forms)

    def clear(self) -> None:
        """Forget them all: the run is over."""
        self._forms = ()
        self._ids = ()

    def _spans(self, text: str) -> list[_Span]:
        """Where values stand, the longest first; without what longer ones already cover."""
        spans: list[_Span] = []
        covered = bytearray()
        for spelling, secret_id in self._forms:
            at = text.find(spelling)
            while at >= 0:
                end = at + len(spelling)
                covered = covered or bytearray(len(text))
                if covered.find(0, at, end) >= 0:
                    covered[at:end] = b"\1" * (end - at)
                    spans.append(_Span(at, end, secret_id))
                at = text.find(spelling, end)
        return spans

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        return f"<Secrets of {len(self)}>"

    def __reduce__(self) -> NoReturn:
        # Registries are process memory only; a copy on its way elsewhere would outlive the run.
        raise TypeError("secrets are not to be copied or stored")


def _spellings(value: str) -> Iterator[str]:
    """The value, and how it stands inside a JSON string or a URL, if that is not the same."""
    found = (value, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1], _quoted(value))
    yield from dict.fromkeys(found)


def _quoted(value: str) -> str:
    return quote(value, safe="", errors="surrogatepass")
