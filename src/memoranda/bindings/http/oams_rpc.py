"""The operations of OAMS as JSON-RPC 2.0: single calls, batches and notifications (section 3).

Whatever could be read as JSON-RPC is answered with status 200, errors too; nothing but notifications with 204. A
single call has the headers of the same operation in REST.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from memoranda.bindings.http import oams, oams_wire, wire
from memoranda.bindings.http.request import Answer
from memoranda.bindings.http.threads import Threads
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.standards.oams import codes, rpc
from memoranda.standards.oams.requests import ForgetRequest, ListRequest, StoreRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call, whose it is, and the consents that came in the header."""

    access: Access
    params: dict[str, Any]
    consents: Sequence[str]


Method = Callable[[Service, Asked], Answer]


def _store(service: Service, asked: Asked) -> Answer:
    params = dict(asked.params)
    if_none_match = params.pop("if_none_match", None)
    return oams.store(service, asked.access, StoreRequest.parse(params), if_none_match=if_none_match)


def _recall(service: Service, asked: Asked) -> Answer:
    return oams.recall(service, asked.access, asked.params, shown=asked.consents)


def _list(service: Service, asked: Asked) -> Answer:
    return oams.list_memories(service, asked.access, ListRequest.parse(asked.params))


def _forget(service: Service, asked: Asked) -> Answer:
    return oams.forget(service, asked.access, ForgetRequest.parse(asked.params))


def _batch_store(service: Service, asked: Asked) -> Answer:
    return oams.batch_store(service, asked.access, asked.params)


def _get(service: Service, asked: Asked) -> Answer:
    return oams.get(service, asked.access, ForgetRequest.parse(asked.params))


METHODS: Final[Mapping[str, Method]] = {
    "oams.store": _store,
    "oams.recall": _recall,
    "oams.list": _list,
    "oams.forget": _forget,
    "oams.batch_store": _batch_store,
    "oams.get": _get,
}


class RpcRoute:
    """ASGI endpoint: read the body, and in one thread make its calls one after the other."""

    def __init__(self, *, service: Service, threads: Threads, bodies: oams.Bodies) -> None:
        self._service = service
        self._threads = threads
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._bodies.room(scope):
            body, headers = await self._threads.run(self._work, scope, await wire.read_body(receive))
        await oams.send_answer(send, 200 if body else 204, body, headers)

    def _work(self, scope: Scope, raw: bytes) -> tuple[bytes, tuple[wire.Header, ...]]:
        wire.check_media_type(scope)
        if scope["query_string"]:
            raise InvalidInput("nothing can be asked for in the query here")
        envelope = rpc.read(raw, max_bytes=oams_wire.body_limit(scope, self._bodies.small_bytes))
        answers: list[dict[str, Any]] = []
        headers: tuple[wire.Header, ...] = ()
        for call in envelope.calls:
            answer, headers = self._call(scope, call)
            if not call.is_notification:
                answers.append(answer)
        closed = rpc.closed(envelope, answers)
        return b"" if closed is None else dump(closed), () if envelope.is_batch else headers

    def _call(self, scope: Scope, call: rpc.Call) -> tuple[dict[str, Any], tuple[wire.Header, ...]]:
        if call.problem is not None:
            return rpc.refusal(call), ()
        method = METHODS.get(call.method)
        if method is None:
            message = f"there is no method {call.method[:40]!a}; there are {', '.join(METHODS)}"
            return rpc.failure(call, codes.METHOD_NOT_FOUND, message), ()
        consents = oams.consents_in_header(scope)
        try:
            answer = method(
                self._service, Asked(access=scope["state"]["access"], params=call.params, consents=consents)
            )
        except MemorandaError as error:
            return rpc.failure(call, *oams_wire.problem(error)), ()
        return rpc.answer(call, answer.result), answer.headers
