"""The routes by which an owner looks around: one memory in every standard's words, where it comes from, projects, the
feed page by page; and says what goes for all of it: rules, undoing, the end of the audit log."""

from __future__ import annotations

from typing import Any, Final

from msgspec import to_builtins

from memoranda.bindings.http.call import Call
from memoranda.bindings.http.turns import in_turn
from memoranda.bindings.http.ump import EXAMPLE_ID, EXAMPLE_OWNER, UMP, memory_id
from memoranda.service.core.rules import OwnRules
from memoranda.service.service import Service
from memoranda.standards.ump.extensions import IdsRequest, PruneRequest, RulesRequest
from memoranda.standards.ump.requests import RecallRequest, ScopeFilter, SubscribeRequest


def recall_bare(service: Service, call: Call, asked: RecallRequest) -> dict[str, Any]:
    return {"results": [ranked.document() for ranked in service.recall_bare(call.access, asked)]}


def elsewhere(service: Service, call: Call, asked: RecallRequest) -> dict[str, Any]:
    return {"projects": service.elsewhere(call.access, asked)}


def seen_as(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    return {"standards": service.seen_as(call.access, memory_id(call))}


def origins(service: Service, call: Call, _asked: None) -> object:
    return to_builtins(service.origins(call.access, memory_id(call)))


def projects(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    return {"projects": service.projects(call.access)}


def short_ids(service: Service, call: Call, asked: IdsRequest) -> dict[str, Any]:
    call.access.require("read")
    return {"short": service.short_ids(call.access, asked.ids)}


def undo_last(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    undone = service.undo_last(call.access)
    return {"change": undone.change, "id": undone.id, "now": undone.now, "said": undone.said}


def rules(service: Service, call: Call, _asked: None) -> object:
    return to_builtins(service.rules(call.access))


def set_rules(service: Service, call: Call, asked: RulesRequest) -> object:
    wanted = OwnRules(
        presets=asked.presets,
        memories=asked.memories,
        bytes=asked.bytes,
        writes_per_minute=asked.writes_per_minute,
    )
    service.set_rules(call.access, wanted)
    return to_builtins(service.rules(call.access))


def changes(service: Service, call: Call, asked: SubscribeRequest) -> object:
    return to_builtins(service.changes(call.access, asked.conditions(), asked.after or 0))


def feed_position(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    return {"place": service.feed_position(call.access)}


def feed_end(service: Service, call: Call, asked: ScopeFilter) -> dict[str, Any]:
    return {"place": service.feed_end(call.access, asked.conditions())}


def audit_prune(service: Service, call: Call, asked: PruneRequest) -> dict[str, Any]:
    return {"pruned": service.audit_prune(call.access, asked.before, asked.owner)}


_row: Final = UMP.row
_RECALL: Final = {"query": "gate handoff", "scope": {"owner": EXAMPLE_OWNER, "project": "p"}}
OPERATIONS: Final = (
    _row(
        "POST",
        "/ump/recall/bare",
        "recall_bare",
        "The same as a recall, without the documents of other standards that records carry",
        recall_bare,
        "RecallAnswer",
        RecallRequest,
        _RECALL,
    ),
    _row(
        "POST",
        "/ump/recall/elsewhere",
        "elsewhere",
        "In which other projects a question that found nothing in one has answers",
        elsewhere,
        "ElsewhereAnswer",
        RecallRequest,
        _RECALL,
    ),
    _row(
        "GET",
        "/ump/memory/{id}/standards",
        "seen_as",
        "One memory as each standard shows it",
        seen_as,
        "StandardsAnswer",
    ),
    _row(
        "GET",
        "/ump/memory/{id}/origins",
        "origins",
        "What a memory was made from, what was made from it, and how many go with it",
        origins,
        "OriginsAnswer",
    ),
    _row(
        "GET", "/ump/projects", "projects", "The projects in which there is or was anything", projects, "ProjectsAnswer"
    ),
    _row(
        "POST",
        "/ump/short_ids",
        "short_ids",
        "The beginnings by which memories can be named",
        short_ids,
        "ShortIdsAnswer",
        IdsRequest,
        {"ids": [EXAMPLE_ID]},
    ),
    _row(
        "POST",
        "/ump/undo",
        "undo_last",
        "Take back the last change: forget what was remembered, bring back what was revised or forgotten",
        undo_last,
        "UndoAnswer",
    ),
    _row("GET", "/ump/rules", "rules", "What the owner asks for beyond what the server does", rules, "RulesAnswer"),
    _row(
        "PUT",
        "/ump/rules",
        "set_rules",
        "Ask for something else from now on: compliance presets, less room; its owner may",
        set_rules,
        "RulesAnswer",
        RulesRequest,
        {"presets": [], "memories": 100000},
    ),
    _row(
        "GET",
        "/ump/changes",
        "changes",
        "A page of the change feed, after a place in it",
        changes,
        "ChangesAnswer",
        asks=SubscribeRequest,
        example={"owner": EXAMPLE_OWNER, "after": 0},
    ),
    _row(
        "GET",
        "/ump/changes/position",
        "feed_position",
        "How far the feed has come; it tells of no memory, and is not put on record",
        feed_position,
        "PlaceAnswer",
    ),
    _row(
        "GET",
        "/ump/changes/end",
        "feed_end",
        "Where the feed of a scope ends now; a subscriber starts there",
        feed_end,
        "PlaceAnswer",
        asks=ScopeFilter,
        example={"owner": EXAMPLE_OWNER},
    ),
    _row(
        "POST",
        "/ump/audit/prune",
        "audit_prune",
        "Take the events from before a moment out of the audit log; its owner may",
        in_turn(audit_prune),
        "PruneAnswer",
        PruneRequest,
        {"before": "2020-01-01T00:00:00Z"},
    ),
)
