"""CAL over a server. A query travels as text or in its JSON form; a capability token narrows it in a header.

The language is not parsed here: a mistake is found by the server, and its error comes back with code and position. So a
program that uses CAL over a server starts without loading the parser. A query that writes needs two requests, `prepare`
and its execution; `approve` makes both. A token is sent in a header, never in the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Unpack, cast

from memoranda.bindings.operations.cal import LINES, OPERATIONS
from memoranda.encoding.json_text import parse
from memoranda.library.remote_verbs import RemoteVerbs

if TYPE_CHECKING:
    from memoranda.library.remote import Answer
    from memoranda.service.cal.execution import QueryInput
    from memoranda.service.cal.session import SessionOptions
    from memoranda.standards.cal.assembly.stream import Event
    from memoranda.standards.cal.language.check import CheckResult


class RemoteCal(RemoteVerbs, rows=OPERATIONS):
    """The query language over a server. The verbs that take a query are in the body: they load none of the language."""

    def __call__(
        self, query: QueryInput, params: Mapping[str, object] | None = None, **options: Any
    ) -> dict[str, Any]:
        """Return the answer to a query; the same as `run`."""
        return self.run(query, params=params, **options)

    def check(
        self, query: QueryInput, *, params: Mapping[str, object] | None = None, strict: bool = False
    ) -> CheckResult:
        """Return the first thing wrong with a query, if there is one."""
        return cast(
            "CheckResult", self._query("check", query, params=params, strict=strict).document
        )

    def run(
        self,
        query: QueryInput,
        *,
        params: Mapping[str, object] | None = None,
        cursor: str | None = None,
        approve: bool = False,
        strict: bool = False,
        **options: Unpack[SessionOptions],
    ) -> dict[str, Any]:
        """Run one query. With `approve` it is prepared and executed, which is how a server lets it append."""
        if approve:
            token = self.prepare(query, params=params, strict=strict, **options)["token"]
            return cast("dict[str, Any]", self.execute(token))
        answer = self._query("run", query, params=params, strict=strict, cursor=cursor, **options)
        return cast("dict[str, Any]", answer.document)

    def prepare(
        self,
        query: QueryInput,
        *,
        params: Mapping[str, object] | None = None,
        strict: bool = False,
        **options: Unpack[SessionOptions],
    ) -> dict[str, Any]:
        """Fix a query and describe its effects: {token, plan, tier, side_effects}."""
        answer = self._query("prepare", query, params=params, strict=strict, **options)
        return cast("dict[str, Any]", answer.document)

    def stream(
        self,
        query: QueryInput,
        *,
        params: Mapping[str, object] | None = None,
        strict: bool = False,
        raises: bool = False,
        **options: Unpack[SessionOptions],
    ) -> Iterator[Event]:
        """Yield the events of an ASSEMBLE; a failure before the first is raised."""
        del raises
        answer = self._query(
            "stream", query, params=params, strict=strict, headers={"Accept": LINES}, **options
        )
        for line in answer.raw.splitlines():
            yield parse(line)

    def _query(
        self,
        verb: str,
        query: QueryInput,
        *,
        params: Mapping[str, object] | None,
        strict: bool,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        **extra: object,
    ) -> Answer:
        text_or_form = query.decode("utf-8", "replace") if isinstance(query, bytes) else query
        fields = {
            "params": None if params is None else dict(params),
            "strict": strict or None,
            **extra,
        }
        body = {
            "query": text_or_form,
            **{name: value for name, value in fields.items() if value is not None},
        }
        token_header = {} if token is None else {"X-CAL-Token": token}
        return self._answer(verb, _body=body, _headers={**token_header, **(headers or {})})
