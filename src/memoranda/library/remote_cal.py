"""CAL over a server, with the verbs that it has over a store of this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from memoranda.encoding.json_text import parse
from memoranda.errors import NotFound
from memoranda.library.connection import Connection

if TYPE_CHECKING:
    from memoranda.service.cal.cal import Given
    from memoranda.standards.cal.assembly.stream import Event
    from memoranda.standards.cal.language.check import CheckResult

_NARROWED_BY: Final = "X-CAL-Token"
_LINES: Final = "application/x-ndjson"


class RemoteCal:
    """The query language over a server."""

    def __init__(self, server: Connection) -> None:
        self._server = server

    def __call__(self, query: Given, params: Mapping[str, object] | None = None, **options: Any) -> dict[str, Any]:
        """The answer to a query: `run`."""
        return self.run(query, params=params, **options)

    def check(self, given: Given, *, params: Mapping[str, object] | None = None, strict: bool = False) -> CheckResult:
        """Whether this is a query, and if not, the first thing wrong with it."""
        return cast("CheckResult", self._post("/cal/check", given, params, strict=strict))

    def run(
        self,
        given: Given,
        *,
        params: Mapping[str, object] | None = None,
        cursor: str | None = None,
        approve: bool = False,
        strict: bool = False,
        **whose: Any,
    ) -> dict[str, Any]:
        """Run one query. With `approve` it is prepared and executed, which is how a server lets it append."""
        if approve:
            return self.execute(self.prepare(given, params=params, strict=strict, **whose)["token"])
        return self._post("/cal", given, params, strict=strict, cursor=cursor, **whose)

    def prepare(
        self, given: Given, *, params: Mapping[str, object] | None = None, strict: bool = False, **whose: Any
    ) -> dict[str, Any]:
        """Fix a query and say what it would do: {token, plan, tier, side_effects}."""
        return self._post("/cal/prepare", given, params, strict=strict, **whose)

    def execute(self, token: str, *, owner: str | None = None) -> dict[str, Any]:
        """Run what was prepared, as it was prepared, once."""
        whose = {} if owner is None else {"owner": owner}
        return cast("dict[str, Any]", self._server.post("/cal/execute", {"token": token, **whose}))

    def issue(
        self,
        *,
        namespace: str | None = None,
        user: str | None = None,
        operations: tuple[str, ...] = (),
        grain_types: tuple[str, ...] = (),
        **how: Any,
    ) -> str:
        """A capability token that lets whoever holds it ask so much, so often, for so long."""
        said = {"namespace": namespace, "user": user, **how}
        asked = {name: value for name, value in said.items() if value is not None}
        lists = {"operations": list(operations), "grain_types": list(grain_types)}
        return str(self._server.post("/cal/tokens", {**asked, **lists})["token"])

    def stream(
        self,
        given: Given,
        *,
        params: Mapping[str, object] | None = None,
        strict: bool = False,
        raises: bool = False,
        **whose: Any,
    ) -> Iterator[Event]:
        """An ASSEMBLE as events, one after the other; what fails before the first is raised."""
        del raises
        body, headers = _asked(given, params, strict=strict, **whose)
        answer = self._server.ask("POST", "/cal/stream", body, headers={**headers, "Accept": _LINES})
        for line in answer.raw.splitlines():
            yield parse(line)

    def remove_template(self, name: str, **whose: Any) -> bool:
        """Take a template of a namespace away; whether there was one."""
        try:
            self._server.ask("DELETE", f"/cal/templates/{quote(name, safe='')}", query=whose)
        except NotFound:
            return False
        return True

    def _post(self, path: str, given: Given, params: Mapping[str, object] | None, **more: Any) -> dict[str, Any]:
        body, headers = _asked(given, params, **more)
        return cast("dict[str, Any]", self._server.ask("POST", path, body, headers=headers).document)


def _asked(
    given: Given, params: Mapping[str, object] | None, *, strict: bool, token: str | None = None, **more: Any
) -> tuple[dict[str, Any], dict[str, str]]:
    query = given.decode("utf-8", "replace") if isinstance(given, bytes) else given
    said = {"params": None if params is None else dict(params), "strict": strict or None, **more}
    body = {"query": query, **{name: value for name, value in said.items() if value is not None}}
    return body, {} if token is None else {_NARROWED_BY: token}
