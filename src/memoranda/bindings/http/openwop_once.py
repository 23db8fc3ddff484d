"""`Idempotency-Key` over HTTP (openwop): the first request does it, the next ones are told what it did.

Refusals that a correction could mend (400, 401, 403), and what may pass by itself (429, 5xx), are not remembered. The
content of an entry or a file is not kept in a record, where forgetting would not find it: it is read again, and what is
gone meanwhile is gone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from memoranda.bindings.http.call import Answer, Call
from memoranda.bindings.http.operation import Operation
from memoranda.bindings.operations.row import in_header
from memoranda.encoding.json_text import canonical, dump, parse
from memoranda.errors import InvalidInput, MemorandaError, NotFound
from memoranda.service.service import Service

Act = Callable[[], tuple[Answer, bytes]]
REPLAYED: Final = ((b"openwop-idempotent-replay", b"true"),)
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}", re.ASCII)
HEADER: Final = in_header(
    "Idempotency-Key",
    {"type": "string", "pattern": "^[!-~]{1,255}$"},
    "Done once under this key within 24 hours: the same request again is answered alike, another one is 409.",
)
_FINAL: Final = frozenset({404, 405, 409, 410, 413, 422})
# What an answer holds that must not be kept: the memory it shows, and a secret that is told once.
_NOT_KEPT: Final = ("content", "secret")


def once(service: Service, operation: Operation, call: Call, act: Act) -> tuple[Answer, bytes]:
    """Do it, unless it was done under the same key."""
    key = call.header(b"idempotency-key")
    if key is None:
        return act()
    if _KEY.fullmatch(key) is None:
        raise InvalidInput("Idempotency-Key must be 1 to 255 visible ASCII characters")
    name = f"{operation.method} {operation.path}"
    record = service.openwop.claim(call.access, name, key, _digest(call))
    if record.status:
        return _replayed(service, operation, call, record.status, record.body)
    status, body = 0, ""
    try:
        answer, given = act()
        status, body = answer.status or operation.success[0], _recordable(operation, given)
        return answer, given
    except MemorandaError as error:
        found, problem = operation.standard.refuse(error, call.scope["path"])
        if found in _FINAL:
            status, body = found, dump(problem).decode()
        raise
    finally:
        service.openwop.settle(call.access, record, status=status, body=body)


def _digest(call: Call) -> str:
    """The request: its path, its query and its body, however the body is spelled."""
    body = canonical(parse(call.raw, max_bytes=call.max_body_bytes)) if call.raw else b""
    guards = "\n".join(call.header(name) or "" for name in (b"if-match", b"if-none-match")).encode()
    parts = (call.scope["raw_path"], call.scope["query_string"], guards, body)
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


def _recordable(operation: Operation, body: bytes) -> str:
    if operation.answer not in _READ_AGAIN:
        return body.decode()
    result: Any = parse(body, max_bytes=len(body))
    return dump({name: value for name, value in result.items() if name not in _NOT_KEPT}).decode()


def _replayed(
    service: Service, operation: Operation, call: Call, status: int, body: str
) -> tuple[Answer, bytes]:
    if status < 300 and operation.answer in _READ_AGAIN:
        answer = _READ_AGAIN[operation.answer](service, call, parse(body))
        return Answer(status=status, headers=(*answer.headers, *REPLAYED)), dump(answer.result)
    return Answer(status=status, headers=REPLAYED), body.encode()


def _entry(service: Service, call: Call, written: Any) -> Answer:
    found = service.openwop.get_entry(call.access, ref_of(call), written["id"], run_id=run_of(call))
    if found is None:
        raise NotFound("what was written with this Idempotency-Key is no longer there")
    return Answer(result=found)


def _file(service: Service, call: Call, written: Any) -> Answer:
    return file_answer(service.openwop.file(call.access, written["path"], written["version"]))


def _webhook(service: Service, call: Call, written: Any) -> Answer:
    return Answer(result=service.openwop.registered_webhook(call.access, written["webhookId"]))


_READ_AGAIN: Final[Mapping[str, Callable[[Service, Call, Any], Answer]]] = {
    "OpenwopEntry": _entry,
    "OpenwopFile": _file,
    "OpenwopRegisteredWebhook": _webhook,
}


# --- what paths and answers of openwop have in common --------------------------------------------------------


def ref_of(call: Call) -> str:
    """The memoryRef in the path; one that cannot be read is as malformed as any other, which is no error."""
    return call.readable_name("ref") or ""


def run_of(call: Call) -> str | None:
    """The run in the path, where there is one."""
    return call.name("run_id") if "run_id" in call.scope["path_params"] else None


def file_answer(found: dict[str, Any]) -> Answer:
    """A workspace file with its version as a header."""
    return Answer(result=found, headers=((b"etag", str(found["etag"]).encode("ascii")),))
