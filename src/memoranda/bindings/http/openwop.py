"""The routes of openwop about memory and the host: entries, workspace files, agents, commitments, schedules.

`list` and `get` are portable; what changes entries is a host's own business and stands under its own paths. Runs are in
`openwop_runs`, proposals in `openwop_proposals`. A ref is an opaque string that may hold slashes; it stands
percent-encoded in the path.
"""

from __future__ import annotations

from typing import Any, Final

from memoranda.bindings.http.call import Answer, Call
from memoranda.bindings.http.openwop_once import HEADER, file_answer, once, ref_of, run_of
from memoranda.bindings.http.operation import Operation, Refusal, Standard, in_header
from memoranda.encoding.shapes import TEXT
from memoranda.errors import ForbiddenScope, MemorandaError, NotFound
from memoranda.service.service import Service
from memoranda.standards.openwop.answers import ANSWERS
from memoranda.standards.openwop.entry import Draft, ListOptions
from memoranda.standards.openwop.problem import NOT_FOUND, build_problem, problem_of
from memoranda.standards.openwop.requests import (
    FireRequest,
    ForgetRequest,
    GetFileRequest,
    ListCommitmentsRequest,
    ListFilesRequest,
    PutEntriesRequest,
    RefRequest,
    ScheduleRequest,
    SnoozeRequest,
    WatchRequest,
)
from memoranda.standards.openwop.workspace import WorkspaceDraft, check_path, is_prefix

DISCOVERY: Final = "/.well-known/openwop"
EXAMPLE_REF: Final = "agents/research"
EXAMPLE_RUN: Final = "run_example"
EXAMPLE_ENTRY: Final[dict[str, Any]] = {"content": "The customer asks for invoices by mail.", "tags": ["subject:acme"]}
EXAMPLE_PATH: Final = "notes/plan.md"


def refuse(error: MemorandaError, _path: str) -> Refusal:
    """openwop's envelope; entry data is never in it (CTI-1)."""
    # auth.md shows scopeRequired at the top level, which the closed envelope does not allow.
    scope = error.scope if isinstance(error, ForbiddenScope) else None
    return problem_of(error, details=None if scope is None else {"scopeRequired": scope})


def no_route(status: int, _path: str) -> Refusal:
    if status == 405:
        return status, build_problem("method_not_allowed", "this path is not for that method")
    return status, build_problem(NOT_FOUND, "no route")


def _name(example: str, description: str = "") -> dict[str, Any]:
    said = {"description": description} if description else {}
    return {"schema": {"type": "string", "minLength": 1}, "example": example, **said}


OPENWOP: Final = Standard(
    name="openwop",
    prefixes=("/v1/", DISCOVERY),
    refuse=refuse,
    no_route=no_route,
    responses="openwop",
    schemas="Wop",
    errors={
        "400": "Not well-formed, or no such workflow (validation_error)",
        "401": "No credential, or one that does not hold (unauthenticated)",
        "403": "A credential, Host or Origin that does not reach this far (forbidden; details.scopeRequired)",
        "404": "Nothing there, or nothing you may see (not_found)",
        "409": "Not as expected: workspace_conflict with details.currentVersion, or conflict",
        "413": "A workspace file over a limit (workspace_too_large)",
        "422": "token_budget_exceeded, invalid_from_seq, replay_memory_snapshot_unavailable or malformed_artifact",
        "429": "Too fast (rate_limited), with Retry-After",
        "503": "The store cannot be used right now (unavailable)",
    },
    error_schemas=("OpenwopError",),
    answers=ANSWERS,
    names={
        "ref": _name(EXAMPLE_REF, "A memoryRef, percent-encoded, its slashes too."),
        "id": _name("mem_example", "An entry's id."),
        "run_id": _name(EXAMPLE_RUN),
        "path": _name(EXAMPLE_PATH, "A path; its slashes need no encoding."),
        "commitment_id": _name("com_example"),
        "proposal_id": _name("prop_example"),
        "webhook_id": _name("wh_example"),
    },
    # An id of another standard, and a path.
    rest=frozenset({"id", "path"}),
    once=once,
    effect_headers=(HEADER,),
)


# --- memory ------------------------------------------------------------------------------------------------


def list_entries(service: Service, call: Call, asked: ListOptions) -> dict[str, Any]:
    return {"entries": service.openwop.list_entries(call.access, ref_of(call), asked)}


def get_entry(service: Service, call: Call, _asked: None) -> Any:
    found = service.openwop.get_entry(call.access, ref_of(call), call.name("id"))
    if found is None:
        raise NotFound("no such entry")
    return found


def put_entry(service: Service, call: Call, asked: Draft) -> Any:
    return service.openwop.put_entry(call.access, ref_of(call), asked)


def put_entry_under(service: Service, call: Call, asked: Draft) -> Any:
    return service.openwop.put_entry(call.access, ref_of(call), asked, entry_id=call.name("id"))


def put_entries(service: Service, call: Call, asked: PutEntriesRequest) -> dict[str, Any]:
    made = service.openwop.put_entries(call.access, asked.memory_ref, asked.entries)
    # Named, not shown: answers are kept for a day, where forgetting would not find what they say.
    return {"ids": [entry["id"] for entry in made]}


def delete_entry(service: Service, call: Call, _asked: None) -> None:
    if not service.openwop.delete_entry(call.access, ref_of(call), call.name("id")):
        raise NotFound("no such entry")


def forget(service: Service, call: Call, asked: ForgetRequest) -> dict[str, Any]:
    return {"forgotten": service.openwop.forget(call.access, asked.memory_ref, asked.subject)}


def agents(service: Service, call: Call, _asked: None) -> Any:
    return service.openwop.agents(call.access)


# --- workspace ---------------------------------------------------------------------------------------------


def list_files(service: Service, call: Call, asked: ListFilesRequest) -> dict[str, Any]:
    # What begins no path has no files.
    return {
        "files": service.openwop.files(call.access, asked.prefix, run_id=run_of(call))
        if is_prefix(asked.prefix)
        else []
    }


def get_file(service: Service, call: Call, asked: GetFileRequest) -> Answer:
    path = check_path(call.name("path"))
    return file_answer(service.openwop.file(call.access, path, asked.version, run_id=run_of(call)))


def put_file(service: Service, call: Call, asked: WorkspaceDraft) -> Answer:
    made = service.openwop.write_file(
        call.access,
        check_path(call.name("path")),
        asked.content,
        content_type=asked.content_type,
        if_match=call.header(b"if-match"),
        if_none_match=call.header(b"if-none-match"),
        run_id=run_of(call),
    )
    return file_answer(made)


def delete_file(service: Service, call: Call, _asked: None) -> None:
    path = check_path(call.name("path"))
    if not service.openwop.remove_file(call.access, path, if_match=call.header(b"if-match"), run_id=run_of(call)):
        raise NotFound("no such workspace file")


# --- commitments and schedules -----------------------------------------------------------------------------


def list_commitments(service: Service, call: Call, asked: ListCommitmentsRequest) -> dict[str, Any]:
    found = service.openwop.commitments(call.access, asked.memory_ref)
    return {"commitments": [each.document() for each in found]}


def infer_commitments(service: Service, call: Call, asked: RefRequest) -> dict[str, Any]:
    found = service.openwop.infer_commitments(call.access, asked.memory_ref)
    return {"commitments": [each.document() for each in found]}


def watch_commitments(service: Service, call: Call, asked: WatchRequest) -> dict[str, Any]:
    service.openwop.watch_commitments(call.access, asked.memory_ref, is_watched=asked.watched)
    return {"memoryRef": asked.memory_ref, "watched": asked.watched}


def cancel_commitment(service: Service, call: Call, _asked: None) -> Any:
    return service.openwop.cancel_commitment(call.access, call.name("commitment_id")).document()


def snooze_commitment(service: Service, call: Call, asked: SnoozeRequest) -> Any:
    return service.openwop.snooze_commitment(call.access, call.name("commitment_id"), asked.until).document()


def fire_commitment(service: Service, call: Call, asked: FireRequest) -> dict[str, Any]:
    event, found = service.openwop.fire_commitment(call.access, call.name("commitment_id"), condition=asked.condition)
    return {"commitment": found.document(), **({} if event is None else {"event": event})}


def list_schedules(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    return {"schedules": service.openwop.schedules(call.access)}


def put_schedule(service: Service, call: Call, asked: ScheduleRequest) -> Any:
    return service.openwop.schedule(
        call.access, asked.memory_ref, asked.cron, timezone=asked.timezone, token_budget=asked.token_budget
    )


def delete_schedule(service: Service, call: Call, asked: RefRequest) -> None:
    if not service.openwop.unschedule(call.access, asked.memory_ref):
        raise NotFound("there is no schedule for this ref")


# --- the table ---------------------------------------------------------------------------------------------

_IF_MATCH: Final = in_header("If-Match", TEXT, 'The version that is meant, such as `"v3"`; `*` for any.')
_IF_NONE_MATCH: Final = in_header("If-None-Match", {"const": "*"}, "Only if there is no such file.")
_ETAG: Final = {"ETag": {"description": "The version of the file.", "schema": TEXT}}
_ENTRIES, _ENTRY = "/v1/memory/{ref}", "/v1/memory/{ref}/{id}"
_COMMITMENTS, _SCHEDULES = "/v1/host/commitments", "/v1/host/schedules"
_REF: Final = {"memoryRef": EXAMPLE_REF}
_row: Final = OPENWOP.row


def _files(path: str, name: str, what: str) -> tuple[Operation, ...]:
    """The rows about workspace files: those of the host, and the same in a run."""
    one = path + "/{path}"
    return (
        _row(
            "GET",
            path,
            f"{name}_files",
            f"{what}, without their content",
            list_files,
            "OpenwopFiles",
            ListFilesRequest,
            {"prefix": "notes/"},
        ),
        _row(
            "GET",
            one,
            f"{name}_file",
            "A workspace file, as it is or as it was",
            get_file,
            "OpenwopFile",
            GetFileRequest,
            headers=_ETAG,
        ),
        _row(
            "PUT",
            one,
            f"{name}_write_file",
            "Write the next version of a workspace file",
            put_file,
            "OpenwopFile",
            WorkspaceDraft,
            {"content": "# Plan\n"},
            parameters=(_IF_MATCH, _IF_NONE_MATCH),
            headers=_ETAG,
        ),
        _row(
            "DELETE",
            one,
            f"{name}_remove_file",
            "Take a workspace file away, with its versions",
            delete_file,
            "",
            parameters=(_IF_MATCH,),
            success=(204,),
        ),
    )


OPERATIONS: Final = (
    _row(
        "GET",
        _ENTRIES,
        "openwop_list",
        "The entries of a ref, the newest first; none for a ref that is malformed or unknown",
        list_entries,
        "OpenwopEntries",
        ListOptions,
        {"limit": 50},
    ),
    _row(
        "POST",
        _ENTRIES,
        "openwop_put",
        "Write an entry; id and time are the host's to give",
        put_entry,
        "OpenwopEntry",
        Draft,
        EXAMPLE_ENTRY,
        success=(201,),
    ),
    _row("GET", _ENTRY, "openwop_get", "One entry", get_entry, "OpenwopEntry"),
    _row(
        "PUT",
        _ENTRY,
        "openwop_put_under",
        "Write the entry under an id that the host chooses; what is there already is replaced and keeps its time",
        put_entry_under,
        "OpenwopEntry",
        Draft,
        EXAMPLE_ENTRY,
    ),
    _row("DELETE", _ENTRY, "openwop_delete", "Never again in any answer", delete_entry, "", success=(204,)),
    _row(
        "POST",
        "/v1/host/memory/forget",
        "openwop_forget",
        "Take out all entries about a subject: those with the tag `subject:<it>`",
        forget,
        "OpenwopForgotten",
        ForgetRequest,
        {**_REF, "subject": "nobody"},
    ),
    _row(
        "POST",
        "/v1/host/memory/entries",
        "openwop_put_many",
        "Write many entries, all or none; their ids, in the same order",
        put_entries,
        "OpenwopIds",
        PutEntriesRequest,
        {**_REF, "entries": [EXAMPLE_ENTRY]},
        success=(201,),
    ),
    _row(
        "GET",
        "/v1/agents",
        "openwop_agents",
        "The agents that were installed, and what memory each lacks",
        agents,
        "OpenwopInventory",
    ),
    *_files("/v1/host/workspace/files", "openwop", "Workspace files"),
    *_files(
        "/v1/host/runs/{run_id}/workspace/files", "openwop_run", "In a run: workspace files as they were when it began"
    ),
    _row(
        "GET",
        _COMMITMENTS,
        "openwop_commitments",
        "The commitments that are known; no word of any",
        list_commitments,
        "OpenwopCommitments",
        ListCommitmentsRequest,
        _REF,
    ),
    _row(
        "POST",
        f"{_COMMITMENTS}/infer",
        "openwop_infer",
        "Find the commitments in the memories of a ref",
        infer_commitments,
        "OpenwopCommitments",
        RefRequest,
        _REF,
    ),
    _row(
        "POST",
        f"{_COMMITMENTS}/watch",
        "openwop_watch",
        "Find commitments in whatever is written to a ref from now on",
        watch_commitments,
        "OpenwopWatch",
        WatchRequest,
        {**_REF, "watched": True},
    ),
    _row(
        "POST",
        f"{_COMMITMENTS}/{{commitment_id}}/snooze",
        "openwop_snooze",
        "Let it fire later",
        snooze_commitment,
        "OpenwopCommitment",
        SnoozeRequest,
        {"until": "2999-01-01T09:00:00Z"},
    ),
    _row(
        "POST",
        f"{_COMMITMENTS}/{{commitment_id}}/cancel",
        "openwop_cancel",
        "Let it never fire",
        cancel_commitment,
        "OpenwopCommitment",
    ),
    _row(
        "POST",
        f"{_COMMITMENTS}/{{commitment_id}}/fire",
        "openwop_fire",
        "Let it fire as if its condition held now; without an event, it was fired for this already",
        fire_commitment,
        "OpenwopFired",
        FireRequest,
        {},
    ),
    _row(
        "GET",
        _SCHEDULES,
        "openwop_schedules",
        "Which refs are distilled by themselves, and when next",
        list_schedules,
        "OpenwopSchedules",
    ),
    _row(
        "PUT",
        _SCHEDULES,
        "openwop_schedule",
        "Distil a ref whenever a cron expression says",
        put_schedule,
        "OpenwopSchedule",
        ScheduleRequest,
        {**_REF, "cron": "0 3 * * *", "timezone": "Europe/Berlin", "tokenBudget": 8000},
    ),
    _row(
        "DELETE",
        _SCHEDULES,
        "openwop_unschedule",
        "Distil it no longer by itself",
        delete_schedule,
        "",
        RefRequest,
        _REF,
        success=(204,),
    ),
)
