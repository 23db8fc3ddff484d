"""Memories that come in and go out as files, in every form that the command line knows."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from memoranda.bindings.console.visit import Answer, File, Page, Visit
from memoranda.bindings.files import exchange
from memoranda.errors import InvalidInput
from memoranda.service.exchange import Report

# The form, the name of the file, and what it is for.
FORMS_OUT: Final = {
    "ndjson": ("memories.ndjson", "UMP, with all versions: for another Memoranda, or to keep"),
    "mg": ("memories.mg", "OMS grains"),
    "oams": ("memories.jsonl", "OAMS, for other vendors"),
    "mem0": ("mem0.json", "Mem0"),
    "langgraph": ("langgraph.jsonl", "LangGraph"),
    "server-memory": ("memory.jsonl", "MCP's server-memory"),
    "csv": ("memories.csv", "a table, for a spreadsheet"),
}
_REFUSALS: Final = 20
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,99}", re.ASCII)


def moving(_visit: Visit) -> Answer:
    return Page(template="moving.html", told={"forms": FORMS_OUT, "report": None})


def export(visit: Visit) -> Answer:
    """All memories, or those that were chosen, in one file."""
    known = visit.given("form") or "ndjson"
    if known not in FORMS_OUT:
        raise InvalidInput("there is no such form")
    names = tuple(visit.form.get("id", ()))
    with TemporaryDirectory(prefix="memoranda-export-") as folder:
        target = Path(folder) / FORMS_OUT[known][0]
        _write(visit, known, str(target), names)
        # Still open when its folder goes: nothing of it is left behind, however its reader ends.
        return File(body=target.open("rb"), name=target.name, media_type="application/octet-stream")


def _write(visit: Visit, known: str, target: str, names: tuple[str, ...]) -> None:
    service, access, report = visit.service, visit.access, Report()
    if known == "ndjson":
        records = service.export(access, history=not names, names=names or None, report=report)
        exchange.export_file(records, target, "ndjson")
    elif known == "mg":
        exchange.export_grains(service.grains.export(access, report=report), target, report)
    elif known == "oams":
        now = service.context.clock()
        exchange.export_memories(service, access, target, report, shape="jsonl", exported_at=now)
    else:
        exchange.export_system(service, access, target, known, report)


def import_file(visit: Visit) -> Answer:
    """What a file would bring, or, unless it is only tried, has brought."""
    file = visit.upload
    if file is None or not file.body:
        raise InvalidInput("choose a file first")
    is_dry = bool(visit.given("dry"))
    told: list[str] = []
    with TemporaryDirectory(prefix="memoranda-import-") as folder:
        # Its own name says what it is, often; nothing else of it is used.
        path = Path(folder) / (file.name if _NAME.fullmatch(file.name) else "file")
        path.write_bytes(file.body)
        try:
            report = exchange.import_files(
                visit.service,
                visit.access,
                [str(path)],
                is_dry=is_dry,
                found=lambda _, system, held: told.append(f"{system}, {held.memories} memories"),
            )
        except InvalidInput as error:
            raise InvalidInput(error.message.replace(f"{folder}/", "")) from None
    refused = [(each.where.removeprefix(f"{folder}/"), each.message) for each in report.refusals[:_REFUSALS]]
    return Page(
        template="moving.html",
        told={"forms": FORMS_OUT, "report": report, "refused": refused, "is_dry": is_dry, "found": told},
    )
