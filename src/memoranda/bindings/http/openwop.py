"""The routes of openwop about memory and the host: entries, workspace files, agents, commitments, schedules.

`list` and `get` are portable; what changes entries is a host's own business and stands under its own paths. Runs are in
`openwop_runs`, proposals in `openwop_proposals`, what only a conformance suite needs in `openwop_seams`.
"""

from __future__ import annotations

from typing import Any, Final

from memoranda.bindings.http.openwop_wire import Asked, Paths, memory_ref, whole_number
from memoranda.bindings.http.request import Answer
from memoranda.errors import NotFound
from memoranda.service.service import Service
from memoranda.standards.openwop.entry import MAX_ID_CHARS, Draft, ListOptions
from memoranda.standards.openwop.fields import (
    check_boolean,
    check_integer,
    check_text,
    check_time,
)
from memoranda.standards.openwop.workspace import WorkspaceDraft, check_path, is_prefix

OPTIONS: Final = ("limit", "tag", "tokenBudget", "rank", "query")
_MAX_CRON_CHARS: Final = 256


# --- memory ----------------------------------------------------------------------------------------------


def list_entries(service: Service, asked: Asked) -> Answer:
    options = ListOptions.parse_query(asked.query(*OPTIONS))
    return Answer(result={"entries": service.openwop.list_entries(asked.access, asked.ref(), options)})


def get_entry(service: Service, asked: Asked) -> Answer:
    asked.query()
    found = service.openwop.get_entry(asked.access, asked.ref(), asked.name("id"))
    if found is None:
        raise NotFound("no such entry")
    return Answer(result=found)


def put_entry(service: Service, asked: Asked) -> Answer:
    asked.query()
    made = service.openwop.put_entry(asked.access, asked.ref(), Draft.parse(asked.json()))
    return Answer(result=made, status=201)


def delete_entry(service: Service, asked: Asked) -> Answer:
    asked.query()
    if not service.openwop.delete_entry(asked.access, asked.ref(), asked.name("id")):
        raise NotFound("no such entry")
    return Answer(status=204)


def forget(service: Service, asked: Asked) -> Answer:
    fields = asked.only("memoryRef", "subject")
    subject = check_text(fields.get("subject"), "subject", MAX_ID_CHARS)
    return Answer(result={"forgotten": service.openwop.forget(asked.access, memory_ref(fields), subject)})


# --- workspace -------------------------------------------------------------------------------------------


def list_files(service: Service, asked: Asked) -> Answer:
    prefix = asked.query("prefix").get("prefix", "")
    # What begins no path has no files.
    found = service.openwop.files(asked.access, prefix) if is_prefix(prefix) else []
    return Answer(result={"files": found})


def get_file(service: Service, asked: Asked) -> Answer:
    version = whole_number(asked.query("version"), "version", least=1)
    return _file(service.openwop.file(asked.access, check_path(asked.name("path")), version))


def put_file(service: Service, asked: Asked) -> Answer:
    asked.query()
    path, draft = check_path(asked.name("path")), WorkspaceDraft.parse(asked.json())
    made = service.openwop.write_file(
        asked.access,
        path,
        draft.content,
        content_type=draft.content_type,
        if_match=asked.header(b"if-match"),
        if_none_match=asked.header(b"if-none-match"),
    )
    return _file(made)


def delete_file(service: Service, asked: Asked) -> Answer:
    asked.query()
    path = check_path(asked.name("path"))
    if not service.openwop.remove_file(asked.access, path, if_match=asked.header(b"if-match")):
        raise NotFound("no such workspace file")
    return Answer(status=204)


def _file(found: dict[str, Any]) -> Answer:
    return Answer(result=found, headers=((b"etag", str(found["etag"]).encode("ascii")),))


# --- agents, commitments, schedules ----------------------------------------------------------------------


def agents(service: Service, asked: Asked) -> Answer:
    return Answer(result=service.openwop.agents(asked.access))


def list_commitments(service: Service, asked: Asked) -> Answer:
    fields = asked.query("memoryRef")
    ref = memory_ref(fields) if "memoryRef" in fields else None
    found = service.openwop.commitments(asked.access, ref)
    return Answer(result={"commitments": [each.document() for each in found]})


def infer_commitments(service: Service, asked: Asked) -> Answer:
    found = service.openwop.infer_commitments(asked.access, memory_ref(asked.only("memoryRef")))
    return Answer(result={"commitments": [each.document() for each in found]})


def watch_commitments(service: Service, asked: Asked) -> Answer:
    fields = asked.only("memoryRef", "watched")
    ref, is_watched = memory_ref(fields), check_boolean(fields.get("watched", True), "watched")
    service.openwop.watch_commitments(asked.access, ref, is_watched=is_watched)
    return Answer(result={"memoryRef": ref, "watched": is_watched})


def cancel_commitment(service: Service, asked: Asked) -> Answer:
    asked.only()
    return Answer(result=service.openwop.cancel_commitment(asked.access, asked.name("commitment_id")).document())


def snooze_commitment(service: Service, asked: Asked) -> Answer:
    until = check_time(asked.only("until").get("until"), "until")
    return Answer(result=service.openwop.snooze_commitment(asked.access, asked.name("commitment_id"), until).document())


def list_schedules(service: Service, asked: Asked) -> Answer:
    asked.query()
    return Answer(result={"schedules": service.openwop.schedules(asked.access)})


def put_schedule(service: Service, asked: Asked) -> Answer:
    fields = asked.only("memoryRef", "cron", "timezone", "tokenBudget")
    cron = check_text(fields.get("cron"), "cron", _MAX_CRON_CHARS)
    timezone = check_text(fields.get("timezone", "UTC"), "timezone", _MAX_CRON_CHARS)
    budget = fields.get("tokenBudget")
    if budget is not None:
        budget = check_integer(budget, "tokenBudget", least=1)
    made = service.openwop.schedule(asked.access, memory_ref(fields), cron, timezone=timezone, token_budget=budget)
    return Answer(result=made)


def delete_schedule(service: Service, asked: Asked) -> Answer:
    if not service.openwop.unschedule(asked.access, memory_ref(asked.query("memoryRef"))):
        raise NotFound("there is no schedule for this ref")
    return Answer(status=204)


PATHS: Final[Paths] = {
    "/v1/memory/{ref}": {"GET": list_entries, "POST": put_entry},
    "/v1/memory/{ref}/{id}": {"GET": get_entry, "DELETE": delete_entry},
    "/v1/host/memory/forget": {"POST": forget},
    "/v1/agents": {"GET": agents},
    "/v1/host/workspace/files": {"GET": list_files},
    "/v1/host/workspace/files/{path}": {"GET": get_file, "PUT": put_file, "DELETE": delete_file},
    "/v1/host/commitments": {"GET": list_commitments},
    "/v1/host/commitments/infer": {"POST": infer_commitments},
    "/v1/host/commitments/watch": {"POST": watch_commitments},
    "/v1/host/commitments/{commitment_id}/cancel": {"POST": cancel_commitment},
    "/v1/host/commitments/{commitment_id}/snooze": {"POST": snooze_commitment},
    "/v1/host/schedules": {"GET": list_schedules, "PUT": put_schedule, "DELETE": delete_schedule},
}
