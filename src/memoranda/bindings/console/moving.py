"""Memories that come in and go out as files, in every form that the command line knows."""

from __future__ import annotations

import queue
import re
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from memoranda.bindings.console.visit import ROOT as CONSOLE
from memoranda.bindings.console.visit import Answer, File, Page, Redirect, Upload, Visit
from memoranda.bindings.files import exchange
from memoranda.bindings.files.reader_process import Limits
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.service.exchange.report import Report

# The form, and the name of the file.
FORMS_OUT: Final = {
    "ndjson": "memories.ndjson",
    "mg": "memories.mg",
    "oams": "memories.jsonl",
    "mem0": "mem0.json",
    "langgraph": "langgraph.jsonl",
    "server-memory": "memory.jsonl",
    "csv": "memories.csv",
}
_REFUSALS: Final = 20
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,99}", re.ASCII)
# How often a page says how far it has come: at most so many times, if the total is known.
_STEPS: Final = 100


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """How far an import has come; the last has its report, or says what went wrong."""

    done: int = 0
    total: int | None = None
    report: Report | None = None
    wrong: str = ""
    # The systems that the file is from, each with how many memories it has there.
    found: tuple[tuple[str, int], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def moving(_visit: Visit) -> Answer:
    return Page(template="moving.html", told={"forms": FORMS_OUT})


def export(visit: Visit) -> Answer:
    """All memories, or those that were chosen, in one file."""
    known = visit.given("form") or "ndjson"
    if known not in FORMS_OUT:
        raise InvalidInput(visit.text("wrong.no_form"))
    names = tuple(visit.chosen("id"))
    with TemporaryDirectory(prefix="memoranda-export-") as folder:
        target = Path(folder) / FORMS_OUT[known]
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
    """What a file would bring, or, unless it is only tried, brings; the page says how far it has come."""
    file = visit.upload
    if file is None or not file.size:
        raise InvalidInput(visit.text("wrong.no_file"))
    is_dry = bool(visit.given("dry"))
    steps: queue.SimpleQueue[Step] = queue.SimpleQueue()
    # Begun before anybody reads of it: whoever is gone by then neither ends it nor keeps others from their turn.
    threading.Thread(
        target=_import, args=(visit, file, is_dry, steps), name="console-import", daemon=True
    ).start()
    told = {"forms": FORMS_OUT, "name": file.name, "is_dry": is_dry, "steps": _taken(steps)}
    return Page(template="moving.html", told=told, is_slow=True)


def undo(visit: Visit) -> Answer:
    """Take back the last import."""
    undone = visit.service.undo_import(visit.access)
    return Redirect(
        f"{CONSOLE}/moving", visit.text("moving.taken_back", n=undone.forgotten + undone.restored)
    )


def _taken(steps: queue.SimpleQueue[Step]) -> Iterator[Step]:
    """How far it has come, as it goes."""
    while True:
        step = steps.get()
        yield step
        if step.report is not None or step.wrong:
            return


def _import(visit: Visit, file: Upload, is_dry: bool, steps: queue.SimpleQueue[Step]) -> None:
    total: int | None = None
    found: list[tuple[str, int]] = []

    def expect(count: int) -> None:
        nonlocal total
        total = count

    def progress(count: int) -> None:
        if count % max(1, (total or 50_000) // _STEPS) == 0:
            steps.put(Step(done=count, total=total))

    with TemporaryDirectory(prefix="memoranda-import-") as folder:

        def without_folder(text: str) -> str:
            return text.replace(f"{folder}/", "")

        try:
            # Its own name says what it is, often; nothing else of it is used.
            path = Path(folder) / (file.name if _NAME.fullmatch(file.name) else "file")
            with path.open("wb") as target, file.body:
                shutil.copyfileobj(file.body, target)
            report = exchange.import_files(
                partial(visit.service.import_items, visit.access),
                visit.access.default_tenant,
                [str(path)],
                is_dry=is_dry,
                progress=progress,
                on_count=expect,
                on_survey=lambda _, system, held: found.append((system, held.memories)),
                # Somebody sent it: a parser of this process would take what it asks for.
                limits=Limits.of(path.stat().st_size),
            )
        except MemorandaError as error:
            steps.put(Step(wrong=without_folder(error.message)))
        # Whatever happens, whoever waits is told.
        except BaseException:
            steps.put(Step(wrong=visit.text("wrong.unexpected")))
            raise
        else:
            refusals = report.refusals[:_REFUSALS]
            refused = tuple(
                (without_folder(each.where), without_folder(each.message)) for each in refusals
            )
            steps.put(Step(report=report, found=tuple(found), refused=refused))
        finally:
            visit.over()
