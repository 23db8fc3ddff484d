"""Screening for secrets: every write of every standard looks for texts that look like secrets.

The policy decides what happens: `off` skips the search, `warn` stores the text and reports it, `redact` replaces the
secret. A signed document, or one that came as finished bytes, cannot be changed without becoming another one:
`refuse_secrets` refuses it under `redact`.

A report names the kinds of secrets, never their values. A binding opens `collect_notices` around a verb and shows the
notices in its own way: the command line in a line, HTTP in a header, MCP in a text and in `_meta`. Without a collector,
as in a program that uses the library, they are logged.

The detector is imported inside functions, because a command that only reads does not need it.

Where it is called: before a document is built, on the fields that the client sent (`screen_fields`, `screen_text`), or
on a finished document (`refuse_secrets`). The detector (`encoding/detection.py`) looks for forms of keys and tokens,
not for meaning, so false alarms exist; that is why `warn` is the default. Its speed matters, as every write passes it:
all texts are joined and searched at once.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from memoranda.errors import InvalidInput
from memoranda.model.memory import NATIVE_KEY

if TYPE_CHECKING:
    from memoranda.service.core.context import Context

# Types of most fields that are not texts. Checked first: an isinstance check against Mapping takes longer.
_SCALAR_TYPES: Final = frozenset((int, float, bool, type(None)))
# Values that look random or like a number but are no secrets: DIDs, UUIDs, hexadecimal hashes and instants, which every
# document has, and short links to its origin (tests/encoding/test_detection.py).
PLAIN_VALUES: Final = re.compile(
    r"did:key:z[1-9A-HJ-NP-Za-km-z]{40,60}|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32}|[0-9a-f]{64}"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)"
    r"|https?://(?=[a-z0-9.-]{1,24}(?:/.{0,24})?\Z)[a-z0-9-]{1,12}(?:\.[a-z0-9-]{1,12})*(?:/[A-Za-z0-9_-]{1,12})*/?",
    re.ASCII,
)
# Words in which no secret was detected: tags, kinds and spaces repeat in many documents. A full cache is emptied.
_CLEAN_WORDS: Final[dict[str, None]] = {}
# Characters of a cached word.
_CLEAN_WORD_CHARS: Final = 40
# Words in the cache.
_CLEAN_WORDS_LIMIT: Final = 4_096


def screen_text(context: Context, text: str, location: str) -> str:
    """Return a text as it may be stored."""
    return context.secrets.screen(text, location)


def screen_fields(context: Context, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return fields with all texts screened, at any depth; the same object if nothing was changed.

    Under `redact` the result contains replacements, and carried originals are dropped, since they would still contain
    the secret.
    """
    if context.secrets.policy == "off":
        return fields
    if not _contains_suspects(fields):
        return fields
    if context.secrets.policy == "warn":
        for location, text in _iterate_texts_with_paths(fields, ""):
            context.secrets.screen(text, location)
        return fields
    return _change_texts(fields, context.secrets.screen)


def detect_kinds(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds of secrets that fields seem to contain, each once, under any policy."""
    if not _contains_suspects(fields):
        return ()
    from memoranda.encoding.detection import detect

    return tuple(
        dict.fromkeys(
            finding.kind
            for _, text in _iterate_texts_with_paths(fields, "")
            for finding in detect(text)
        )
    )


def redact_fields(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return fields without texts that look like secrets, under any policy."""
    from memoranda.encoding.detection import screen

    return _change_texts(fields, lambda text, _: screen(text, "redact")[0])


def _change_texts(
    fields: Mapping[str, Any], change: Callable[[str, str], str]
) -> Mapping[str, Any]:
    """Return fields with every text changed; if any text was, carried documents are dropped."""
    passed = {name: _change_value(change, value, name) for name, value in fields.items()}
    # A carried document contains the secret, too, and cannot be changed: it is dropped.
    return (
        fields
        if passed == fields
        else {name: _without_carried_documents(value) for name, value in passed.items()}
    )


def _without_carried_documents(value: Any) -> Any:
    """Return a value without the documents that it carries."""
    if isinstance(value, dict):
        return {
            name: _without_carried_documents(member)
            for name, member in value.items()
            if name != NATIVE_KEY
        }
    return (
        [_without_carried_documents(member) for member in value]
        if isinstance(value, list)
        else value
    )


def _change_value(change: Callable[[str, str], str], value: Any, location: str) -> Any:
    """Return a value with every text in it changed, except in carried documents."""
    if isinstance(value, str):
        return change(value, location)
    if isinstance(value, list):
        return [_change_value(change, member, location) for member in value]
    if isinstance(value, Mapping):
        return {
            name: member
            if name == NATIVE_KEY
            else _change_value(change, member, f"{location}.{name}")
            for name, member in value.items()
        }
    return value


def refuse_secrets(context: Context, fields: Mapping[str, Any]) -> None:
    """Raise InvalidInput under `redact` if a document that cannot be changed contains a secret; otherwise report it."""
    if context.secrets.policy == "off" or not _contains_suspects(fields, originals=True):
        return
    for location, text in _iterate_texts_with_paths(fields, "", originals=True):
        if kinds := detect_kinds({location: text}):
            if context.secrets.policy == "redact":
                raise InvalidInput(
                    f"{location}: looks like a secret ({kinds[0]}), and what is finished cannot be redacted"
                )
            notify(location, kinds, is_redacted=False)


def _contains_suspects(fields: Mapping[str, Any], *, originals: bool = False) -> bool:
    """Return True if any text looks like a secret. All texts are searched at once, as most contain nothing."""
    from memoranda.encoding.detection import detect

    collected: list[str] = []
    _collect_texts(fields, collected, originals)
    # An empty line separates the texts, so that none runs into the next.
    if detect("\n\n".join(collected)):
        return True
    for text in collected:
        if len(text) <= _CLEAN_WORD_CHARS and " " not in text:
            _CLEAN_WORDS[text] = None
    if len(_CLEAN_WORDS) > _CLEAN_WORDS_LIMIT:
        _CLEAN_WORDS.clear()
    return False


def _collect_texts(value: Any, collected: list[str], originals: bool) -> None:
    """Append the texts in a value that may be secrets."""
    if isinstance(value, str):
        if value not in _CLEAN_WORDS and not PLAIN_VALUES.fullmatch(value):
            collected.append(value)
    elif type(value) in _SCALAR_TYPES:
        return
    elif type(value) is dict or isinstance(value, Mapping):
        for name, member in value.items():
            if originals or name != NATIVE_KEY:
                _collect_texts(member, collected, originals)
    elif isinstance(value, list | tuple):
        for member in value:
            _collect_texts(member, collected, originals)


def iterate_texts(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield every text in fields, at any depth, except in carried documents."""
    return (text for _, text in _iterate_texts_with_paths(fields, ""))


def _iterate_texts_with_paths(
    value: Any, location: str, *, originals: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield every text in a value with its path."""
    if isinstance(value, str):
        yield location, value
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _iterate_texts_with_paths(member, location, originals=originals)
    elif isinstance(value, Mapping):
        for name, member in value.items():
            if originals or name != NATIVE_KEY:
                yield from _iterate_texts_with_paths(
                    member, f"{location}.{name}" if location else str(name), originals=originals
                )


_log = logging.getLogger(__name__)


class SecretNotices:
    """The kinds of secrets that were detected, each once, and whether they were replaced."""

    __slots__ = ("is_redacted", "kinds")

    def __init__(self) -> None:
        self.kinds: dict[str, None] = {}
        self.is_redacted = False

    def __str__(self) -> str:
        """Return one line of ASCII for a person, a header or a model."""
        kinds = ", ".join(self.kinds)
        if self.is_redacted:
            return f"a possible secret ({kinds}) was replaced before the text was stored"
        return (
            f"this looks like a secret ({kinds}) and is stored; "
            "'memoranda redact' lists such memories and removes the secrets"
        )


_listener: Final[ContextVar[SecretNotices | None]] = ContextVar("memoranda_noticed", default=None)


@contextmanager
def collect_notices() -> Iterator[SecretNotices]:
    """Collect the notices about secrets in everything written inside, in this thread.

    Nested collectors do not see each other's notices.
    """
    notices = SecretNotices()
    token = _listener.set(notices)
    try:
        yield notices
    finally:
        _listener.reset(token)


def notify(location: str, kinds: Sequence[str], *, is_redacted: bool) -> None:
    """Report a text that looks like a secret to the collector, or to the log."""
    notices = _listener.get()
    if notices is None:
        outcome = "replaced" if is_redacted else "stored"
        # The names of nested fields are texts of the memory, too.
        field = location.partition(".")[0]
        _log.warning("%s: looks like a secret (%s); %s", field, ", ".join(kinds), outcome)
        return
    notices.kinds.update(dict.fromkeys(kinds))
    notices.is_redacted = is_redacted
