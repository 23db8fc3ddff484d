"""One request of somebody who signed in, and what a page answers it with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Final
from urllib.parse import urlencode

import msgspec

from memoranda.bindings.console.texts import Texts
from memoranda.errors import InvalidInput
from memoranda.service.core.access import Access
from memoranda.service.core.sign_in import Session
from memoranda.service.service import Service

ROOT: Final = "/console"
# As many digits a whole number may have, and no more.
_DIGITS: Final = 16


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown: a template, and what it is told. One that waits for something is sent as far as it has come."""

    template: str
    told: Mapping[str, Any] = {}
    status: int = 200
    is_slow: bool = False


class Redirect(msgspec.Struct, frozen=True):
    """Where the browser goes on; `said` is shown there once."""

    path: str
    said: str = ""


class File(msgspec.Struct, frozen=True, kw_only=True):
    """What is no page: kept under a name, or, without one, read by the script. A large one is read as it is sent."""

    body: bytes | BinaryIO
    name: str
    media_type: str


Answer = Page | Redirect | File


class Upload(msgspec.Struct, frozen=True):
    """A file that a form brings, and how many bytes it has."""

    name: str
    body: BinaryIO
    size: int


def _nothing() -> None:
    pass


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and what for. `query` and `form` have every value of a name, in order."""

    service: Service
    access: Access
    session: Session
    text: Texts
    path: str
    names: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    form: Mapping[str, Sequence[str]]
    upload: Upload | None = None
    # To be called when what a slow page began is over.
    over: Callable[[], None] = _nothing

    def asked(self, name: str) -> str:
        """What the address says; empty where it says nothing."""
        return (self.query.get(name) or ("",))[0].strip()

    def number(self, text: str) -> int:
        """A whole number, as an address or a form says it; 0 where it says none. Raises InvalidInput."""
        text = text.strip()
        if text and not (text.isdecimal() and text.isascii() and len(text) < _DIGITS):
            raise InvalidInput(self.text("wrong.no_number", text=ascii(text[:40])))
        return int(text or 0)

    def given(self, name: str) -> str:
        """What a form says."""
        return (self.form.get(name) or ("",))[0]

    def is_typed(self, word: str) -> bool:
        """Return True if the word that confirms something was typed into the form."""
        return self.given("typed").strip().lower() == word

    def required(self, name: str, missing: str) -> str:
        """The same, where there must be something; `missing` names the text that says so. Raises InvalidInput."""
        value = self.given(name).strip()
        if not value:
            raise InvalidInput(self.text(missing))
        return value

    def chosen(self, name: str) -> list[str]:
        """Return the values of a field that may occur several times: each once, in order, without empty ones."""
        return [value for value in dict.fromkeys(self.form.get(name, ())) if value]

    def with_query(self, **changed: str | None) -> str:
        """The address of the same page with something else in its query; None takes a name out."""
        query = {name: list(values) for name, values in self.query.items() if name not in changed}
        query.update({name: [value] for name, value in changed.items() if value})
        said = urlencode(query, doseq=True)
        return f"{self.path}?{said}" if said else self.path


Show = Callable[[Visit], Answer]
