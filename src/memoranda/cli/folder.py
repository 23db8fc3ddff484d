"""sync: a folder of Markdown files and the store, kept the same."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from memoranda.cli.commands import Parameter
from memoranda.cli.run import GivenRun, print_json
from memoranda.cli.show import line, note
from memoranda.errors import InvalidInput

if TYPE_CHECKING:
    from memoranda.bindings.files.sync import SyncReport


def sync(
    folder: Annotated[Path, Parameter(name="DIR", help="The folder; it is created if it does not exist.")],
    /,
    *,
    watch: Annotated[bool, Parameter(help="Go on until interrupted, whenever a file or a memory changes.")] = False,
    project: Annotated[str | None, Parameter(help="Only memories of this project.")] = None,
    form: Annotated[
        Literal["notes", "records"],
        Parameter(help="Notes as people write them (.md), or whole signed records (.ump.md)."),
    ] = "notes",
    dry_run: Annotated[bool, Parameter(help="Say what would be done, and do nothing.")] = False,
    run: GivenRun,
) -> int:
    """Keep a folder of Markdown notes and the store the same, in both directions; an Obsidian vault, for example.

    Edit a note to revise a memory, write one to remember, delete one to forget. Folders in it count, hidden ones and
    files that are not Markdown do not.
    """
    from memoranda.bindings.files import sync as files

    if watch and dry_run:
        raise InvalidInput("--watch and --dry-run do not go together")
    if not dry_run:
        folder.mkdir(parents=True, exist_ok=True)
    states = run.settings().home / files.STATES_FOLDER
    with run.open() as memoranda:
        if not watch:
            service, access = memoranda.service, memoranda.access
            sync = files.FolderSync(service, access, folder, states=states, project=project, form=form)
            report = sync.run(dry_run=dry_run)
            _show(report, run, dry_run=dry_run)
            return 0 if report.ok else 1
        from memoranda.bindings.files import watch as watching

        memoranda.service.start_background()
        if not run.json:
            note(f"watching {folder}; stop with Ctrl-C")
        try:
            watching.watch(
                memoranda.service,
                memoranda.access,
                folder,
                states=states,
                project=project,
                form=form,
                stop=threading.Event(),
                on_report=lambda report: _show(report, run, quiet=True),
            )
        except KeyboardInterrupt:
            # This is how watching ends, not how it fails.
            return 0
    return 0


def _show(report: SyncReport, run: GivenRun, *, dry_run: bool = False, quiet: bool = False) -> None:
    if quiet and not report.steps:
        return
    if run.json:
        print_json({"ok": report.ok, "dry_run": dry_run, "steps": [step.document() for step in report.steps]})
        return
    for step in report.steps:
        said = f"{step.name}: {step.detail}" if step.detail else step.name
        if step.did in ("refused", "conflict"):
            note(f"{step.did}: {said}")
        else:
            line(f"{'would be ' if dry_run else ''}{step.did:<10}  {said}")
    if not report.steps:
        line("nothing to do")
