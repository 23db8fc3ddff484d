"""The request of a signed-in person, and the answers that a page may give.

A page is a function of a Visit, which has all that it may use: the service with the caller's access, the texts in the
person's language, and the values of the URL and the form, already decoded and limited. A page returns a template, a
redirect or a file and never touches HTTP. `next_path` accepts only pages of this console, because a form could name any
address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO, Final
from urllib.parse import urlencode

import msgspec

from memoranda.bindings.console.inbox import Inbox, Inboxes
from memoranda.bindings.console.texts import Texts
from memoranda.errors import InvalidInput
from memoranda.service.core.access import Access
from memoranda.service.core.sign_in import Session
from memoranda.service.service import Service

ROOT: Final = "/console"
# Characters from which a whole number is refused; shorter ones fit into 64 bits.
_NUMBER_CHARS: Final = 16


# Begins a notice whose action can be undone.
UNDO_MARK: Final = "\u21b6"


def undoable(notice: str) -> str:
    """Return a notice that the next page shows with a button to undo the action."""
    return f"{UNDO_MARK}{notice}"


class TemplatePage(msgspec.Struct, frozen=True, kw_only=True):
    """A template and its context. A slow page is sent in parts while it is rendered."""

    template: str
    context: Mapping[str, object] = {}
    status: int = 200
    is_slow: bool = False
    # True if the template marks parts (`flush`) that are sent before the rest is rendered.
    is_streamed: bool = False


class Redirect(msgspec.Struct, frozen=True):
    """A redirect within the console; the notice is shown once on the next page."""

    path: str
    notice: str = ""


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file to download; without a name, an answer to a script. A body that is a stream is read while it is sent."""

    body: bytes | BinaryIO
    name: str
    media_type: str


Answer = TemplatePage | Redirect | File


class Upload(msgspec.Struct, frozen=True):
    """A file from a form, and its size in bytes."""

    name: str
    body: BinaryIO
    size: int


def _do_nothing() -> None:
    pass


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """A request with its caller. `query` and `form` have all values of a name, in order."""

    service: Service
    access: Access
    session: Session
    text: Texts
    path: str
    names: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    form: Mapping[str, Sequence[str]]
    uploads: Sequence[Upload] = ()
    inboxes: Inboxes = msgspec.field(default_factory=Inboxes)
    # Called when the work that a slow page started has ended.
    on_finish: Callable[[], None] = _do_nothing

    @property
    def inbox(self) -> Inbox:
        """The findings that wait for a decision."""
        return self.inboxes.find(self.access)

    def query_value(self, name: str) -> str:
        """Return a value of the URL's query; "" if there is none."""
        return (self.query.get(name) or ("",))[0].strip()

    def parse_number(self, text: str) -> int:
        """Return a text as a whole number; 0 if it is empty. Raises InvalidInput."""
        text = text.strip()
        if text and not (text.isdecimal() and text.isascii() and len(text) < _NUMBER_CHARS):
            raise InvalidInput(self.text("wrong.no_number", text=ascii(text[:40])))
        return int(text or 0)

    def form_value(self, name: str) -> str:
        """Return a value of the form; "" if there is none."""
        return (self.form.get(name) or ("",))[0]

    def is_typed(self, word: str) -> bool:
        """Return True if the person typed the word that confirms an action."""
        return self.form_value("typed").strip().lower() == word

    def require_value(self, name: str, missing: str) -> str:
        """Return a value of the form. Raises InvalidInput with the text `missing` if it is empty."""
        value = self.form_value(name).strip()
        if not value:
            raise InvalidInput(self.text(missing))
        return value

    def form_values(self, name: str) -> list[str]:
        """Return the values of a field that may occur several times: each once, in order, without empty ones."""
        return [value for value in dict.fromkeys(self.form.get(name, ())) if value]

    def next_path(self, default: str) -> str:
        """Return the page of this console that a form names to continue with, or the default."""
        path = self.form_value("next")
        # It is put behind our own root, so it can name no other host; browsers read a backslash as a slash.
        is_ours = path.startswith("/") and path.isprintable() and "\\" not in path
        return ROOT + (path if is_ours and not path.startswith("//") else default)

    def with_query(self, **changes: str | None) -> str:
        """Return the URL of this page with changes to its query; None removes a name."""
        query = {name: list(values) for name, values in self.query.items() if name not in changes}
        query.update({name: [value] for name, value in changes.items() if value})
        encoded = urlencode(query, doseq=True)
        return f"{self.path}?{encoded}" if encoded else self.path


PageHandler = Callable[[Visit], Answer]
