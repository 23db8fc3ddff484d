"""sync: keep a folder of Markdown files and the store in step.

The comparison and its rules are in `bindings/files`; this module runs it, once or for as long as the folder is watched,
and prints the steps. A dry run prints the same steps and does nothing.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated, Literal

from memoranda.bindings.files.sync import STATES_FOLDER, FolderSync, SyncReport
from memoranda.cli.run import GivenRun, Parameter, print_json
from memoranda.cli.show import line, note
from memoranda.errors import InvalidInput


def sync(
    folder: Annotated[
        Path, Parameter(name="DIR", help="The folder; it is created if it does not exist.")
    ],
    /,
    *,
    watch: Annotated[
        bool, Parameter(help="Keep running, and synchronise after every change, until Ctrl-C.")
    ] = False,
    project: Annotated[str | None, Parameter(help="Only memories of this project.")] = None,
    form: Annotated[
        Literal["notes", "records"],
        Parameter(help="Notes as people write them (.md), or complete signed records (.ump.md)."),
    ] = "notes",
    dry_run: Annotated[
        bool, Parameter(help="Show what would be done, and change nothing.")
    ] = False,
    run: GivenRun,
) -> int:
    """Keep a folder of Markdown notes, such as an Obsidian vault, in step with the store, in both directions.

    Edit a note to revise a memory, write a note to remember, delete a note to forget. Subfolders are included; hidden
    folders, files other than Markdown, and what .memorandaignore lists are ignored.
    """
    if watch and dry_run:
        raise InvalidInput("--watch and --dry-run exclude each other")
    if not dry_run:
        folder.mkdir(parents=True, exist_ok=True)
    states = run.settings().home / STATES_FOLDER
    with run.open() as memoranda:
        synchronisation = FolderSync(
            memoranda.service,
            memoranda.access,
            folder,
            states=states,
            project=project,
            form=form,
        )
        if not watch:
            report = synchronisation.run(dry_run=dry_run)
            _show(report, run, dry_run=dry_run)
            return 0 if report.ok else 1
        memoranda.service.start_background()
        if not run.json:
            note(f"watching {folder}; stop with Ctrl-C")
        try:
            synchronisation.watch(
                stop=threading.Event(),
                on_report=lambda report: _show(report, run, quiet=True),
            )
        except KeyboardInterrupt:
            # The normal end of watching.
            return 0
    return 0


def _show(report: SyncReport, run: GivenRun, *, dry_run: bool = False, quiet: bool = False) -> None:
    """Print the steps of a run; with `quiet`, nothing for a run without steps."""
    if quiet and not report.steps:
        return
    if run.json:
        print_json(
            {
                "ok": report.ok,
                "dry_run": dry_run,
                "steps": [step.document() for step in report.steps],
            }
        )
        return
    for step in report.steps:
        text = f"{step.name}: {step.detail}" if step.detail else step.name
        if step.did in ("refused", "conflict"):
            note(f"{step.did}: {text}")
        else:
            line(f"{'would be ' if dry_run else ''}{step.did:<10}  {text}")
    if not report.steps:
        line("nothing to do")
