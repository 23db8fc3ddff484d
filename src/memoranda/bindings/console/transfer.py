"""The page for import and export, in every file format that the command line supports.

An import runs in a thread of its own, so that it continues when the browser leaves. It puts its progress into a queue,
from which the page is rendered while the import runs.
"""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from memoranda.bindings.console.uploads import FILES_LIMIT, Uploads, WaitingFile
from memoranda.bindings.console.visit import ROOT as CONSOLE
from memoranda.bindings.console.visit import Answer, File, Redirect, TemplatePage, Visit
from memoranda.bindings.files import exchange
from memoranda.bindings.files.importers.importer import Survey
from memoranda.bindings.files.reader_process import Limits
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.service.exchange.importing import ImportOptions
from memoranda.service.exchange.report import Report

# The formats of exports, and the names of their files.
FORMS_OUT: Final = {
    "ndjson": "memories.ndjson",
    "mg": "memories.mg",
    "oams": "memories.jsonl",
    "mem0": "mem0.json",
    "langgraph": "langgraph.jsonl",
    "server-memory": "memory.jsonl",
    "csv": "memories.csv",
}
# Refused items that the page shows.
_REFUSALS: Final = 20
# Reports of progress per import, if the total is form.
_STEPS: Final = 100


class ImportProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of an import. The last one has the report, or the error."""

    done: int = 0
    total: int | None = None
    report: Report | None = None
    wrong: str = ""
    # The systems that the file comes from, with their numbers of memories.
    systems: tuple[tuple[str, int], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def show_transfer(_visit: Visit) -> Answer:
    """Show the forms for import and export."""
    return TemplatePage(template="moving.html", context={"forms": FORMS_OUT})


def export_file(visit: Visit) -> Answer:
    """Return all memories, or the selected ones, in one file."""
    form = visit.form_value("form") or "ndjson"
    if form not in FORMS_OUT:
        raise InvalidInput(visit.text("wrong.no_form"))
    names = tuple(visit.form_values("id"))
    with TemporaryDirectory(prefix="memoranda-export-") as folder:
        target = Path(folder) / FORMS_OUT[form]
        _write_export(visit, form, str(target), names)
        # The file stays open when its folder is removed, so nothing remains on disk.
        return File(body=target.open("rb"), name=target.name, media_type="application/octet-stream")


def _write_export(visit: Visit, form: str, target: str, names: tuple[str, ...]) -> None:
    """Write the file of an export."""
    service, access, report = visit.service, visit.access, Report()
    if form == "ndjson":
        records = service.export(access, history=not names, names=names or None, report=report)
        exchange.export_file(records, target, "ndjson")
    elif form == "mg":
        exchange.export_grains(service.grains.export(access, report=report), target, report)
    elif form == "oams":
        memories = exchange.select_memories(service, access, report)
        now = service.context.clock()
        exchange.export_memories(memories, target, shape="jsonl", exported_at=now)
    else:
        exchange.export_system(service, access, target, form, report)


def stage_part(visit: Visit) -> Answer:
    """Store a part of a file that the script uploads, and return the size of the file so far.

    If the size is not the end of the part, the part did not fit there, and the script continues at the size.
    """
    if len(visit.uploads) != 1:
        raise InvalidInput(visit.text("wrong.no_file"))
    part = visit.uploads[0]
    offset = visit.parse_number(visit.form_value("offset"))
    size = _uploads(visit).append(part.name, visit.form_value("upload"), offset, part.body)
    return File(body=dump({"size": size}), name="", media_type="application/json")


def import_file(visit: Visit) -> Answer:
    """Import files, or preview their import. The page shows the progress.

    The files come with the form, or were uploaded before: in parts, or for the preview. After the import they are
    deleted.
    """
    uploads = _uploads(visit)
    names = visit.form_values("upload")
    for file in visit.uploads:
        if file.size:
            names.append(secrets.token_hex(16))
            uploads.append(file.name, names[-1], 0, file.body)
    if not names or len(names) > FILES_LIMIT:
        raise InvalidInput(visit.text("wrong.no_file"))
    files = uploads.find(names)
    is_dry = bool(visit.form_value("dry"))
    steps: queue.SimpleQueue[ImportProgress] = queue.SimpleQueue()
    # Started before the page is sent: a browser that leaves neither stops the import nor keeps its scan slot.
    threading.Thread(
        target=_run_import, args=(visit, files, is_dry, steps), name="console-import", daemon=True
    ).start()
    context = {
        "forms": FORMS_OUT,
        "files": [file.path.name for file in files],
        "uploads": names,
        "is_dry": is_dry,
        "steps": _progress_steps(steps),
    }
    return TemplatePage(template="moving.html", context=context, is_slow=True)


def _uploads(visit: Visit) -> Uploads:
    """Return the uploads of the session."""
    return Uploads(f"{visit.access.default_tenant} {visit.session.grant_id}")


def undo_import(visit: Visit) -> Answer:
    """Undo the last import."""
    undone = visit.service.undo_import(visit.access)
    return Redirect(
        f"{CONSOLE}/moving", visit.text("moving.taken_back", n=undone.forgotten + undone.restored)
    )


def _progress_steps(steps: queue.SimpleQueue[ImportProgress]) -> Iterator[ImportProgress]:
    """Yield the progress until the import ends."""
    while True:
        step = steps.get()
        yield step
        if step.report is not None or step.wrong:
            return


def _run_import(
    visit: Visit,
    files: Sequence[WaitingFile],
    is_dry: bool,
    steps: queue.SimpleQueue[ImportProgress],
) -> None:
    """Import files, and put the progress into a queue. This is the body of a thread."""
    access = visit.access
    total: int | None = None
    systems: list[tuple[str, int]] = []

    def note_system(_: str, system: str, contents: Survey) -> None:
        systems.append((system, contents.memories))

    def expect(count: int) -> None:
        nonlocal total
        total = count

    def progress(count: int) -> None:
        if count % max(1, (total or 50_000) // _STEPS) == 0:
            steps.put(ImportProgress(done=count, total=total))

    def without_folder(text: str) -> str:
        for file in files:
            text = text.replace(f"{file.path.parent}/", "")
        return text

    observers = exchange.ImportObservers(progress=progress, on_count=expect, on_survey=note_system)
    last = ImportProgress(wrong=visit.text("wrong.unexpected"))
    try:
        report = exchange.import_files(
            partial(visit.service.import_items, access),
            access.default_tenant,
            [str(file.path) for file in files],
            options=ImportOptions(is_dry=is_dry),
            observers=observers,
            # The files are untrusted, so a process with limits parses them.
            limits=Limits.of(sum(file.path.stat().st_size for file in files)),
        )
        refused = tuple(
            (without_folder(refusal.where), without_folder(refusal.message))
            for refusal in report.refusals[:_REFUSALS]
        )
        last = ImportProgress(report=report, systems=tuple(systems), refused=refused)
    except MemorandaError as error:
        last = ImportProgress(wrong=without_folder(error.message))
    finally:
        if not is_dry:
            _uploads(visit).delete(files)
        # The page must learn of every error.
        steps.put(last)
        visit.on_finish()
