"""import: read memories from files or folders into the store, and undo the last import.

The steps are in `bindings/files`: detecting the format, reading the items, and writing them through `service.exchange`.
This module chooses the options, prints what the sources contain before the import and what happened after it, and turns
refusals into messages. Importing the same source again changes nothing but what is new in it, so an interrupted import
is simply repeated. `--watch` relies on that: it imports a changed source as a whole.

With `--dry-run` the same code runs, and each batch is rolled back at its end.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from memoranda.bindings.files import exchange
from memoranda.bindings.files.importers.table import table_with
from memoranda.cli.import_watch import follow_sources
from memoranda.cli.options import FormatName, SystemName
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import count_phrase, line, note, note_report, one_line, progress
from memoranda.errors import InvalidInput, NotFound
from memoranda.hosts.table import HOSTS, Machine, find_sessions
from memoranda.service.exchange.importing import ImportOptions
from memoranda.standards.oams.memory import STATEMENTS

if TYPE_CHECKING:
    from memoranda.app import Memoranda
    from memoranda.bindings.files.importers.importer import Importer, Survey
    from memoranda.service.exchange.report import Report
    from memoranda.standards.oams.namespace import Namespace

# Statements of one namespace that are printed; --json has all.
_STATEMENTS_SHOWN: Final = 10

COLUMNS_HELP = "Columns of a table: text=NAME,user=NAME,created=NAME and so on."


def import_files(
    *sources: Annotated[
        str, Parameter(name="FILE", help="Files, folders, or - for standard input.")
    ],
    format_name: Annotated[
        Literal[FormatName, SystemName] | None,
        Parameter(
            name="--format", help="The format or the system (default: detected from the file)."
        ),
    ] = None,
    adopt: Annotated[
        bool, Parameter(help="Make the memories your own: you become their owner and sign them.")
    ] = False,
    namespace: Annotated[
        str | None,
        Parameter(
            help="Put memories of OAMS into this namespace, or your own namespace of this scope."
        ),
    ] = None,
    columns: Annotated[str | None, Parameter(name="--map", help=COLUMNS_HELP)] = None,
    restore: Annotated[
        bool, Parameter(help="Restore memories that were deleted here after the file was written.")
    ] = False,
    dry_run: Annotated[
        bool, Parameter(help="Show what would be imported, and change nothing.")
    ] = False,
    extract: Annotated[
        bool,
        Parameter(
            help="Also list what people stated in imported conversations, for review; no statement is stored."
        ),
    ] = False,
    watch: Annotated[
        bool,
        Parameter(help="Go on until stopped: import again what changes in the files and folders."),
    ] = False,
    undo: Annotated[
        bool, Parameter(help="Undo the last import; give no file. Memories edited since are kept.")
    ] = False,
    run: GivenRun,
) -> int:
    """Import memories from files or folders of any supported format. Each refused memory is reported with the reason.

    The format is detected from the content, except for grains (.mg) on standard input, which need --format mg. A bundle
    of OAMS is compared with its manifest first. Memories of other systems keep their original document. With the name
    of an agent program as --format and without FILE, its sessions on this machine are imported.
    """
    if undo:
        return _undo_import(sources, run, is_dry=dry_run)
    if adopt and namespace is not None:
        raise InvalidInput(
            "--adopt keeps the scopes and --namespace replaces them: give one of the two"
        )
    if extract and dry_run:
        raise InvalidInput("--extract needs imported conversations: leave out --dry-run")
    if watch and (dry_run or extract):
        raise InvalidInput("--watch stores memories: leave out --dry-run and --extract")
    names = sources or _default_sources(format_name)
    form = importer_of(format_name, columns)
    conversations: set[Namespace] = set()
    with run.open() as memoranda:
        options = ImportOptions(
            adopt=adopt,
            into=None if namespace is None else memoranda.oams.namespace(namespace),
            restore=restore,
            is_dry=dry_run,
        )
        surveys = SurveyLog(is_quiet=run.json)
        report = _import(
            memoranda,
            require_sources(names),
            form,
            options,
            surveys,
            conversations if extract else None,
        )
        candidates = [
            _extract_statements(memoranda, conversation) for conversation in sorted(conversations)
        ]
        if not run.json:
            note_report(report)
        document = {**_document(report, dry_run=dry_run), **surveys.document()}
        if extract:
            document["candidates"] = candidates
        run.answer(document, lambda: _show(report, candidates, dry_run=dry_run))
        if watch:
            _import_changes(memoranda, names, form, options, run)
    return 1 if report.refused else 0


def _import(
    memoranda: Memoranda,
    names: tuple[str, ...],
    form: str | Importer | None,
    options: ImportOptions,
    surveys: SurveyLog,
    conversations: set[Namespace] | None = None,
) -> Report:
    """Import sources once, and collect the namespaces of their conversations."""
    with progress("importing") as bar:
        return exchange.import_files(
            memoranda.ump.import_items,
            memoranda.owner,
            names,
            form=form,
            options=options,
            observers=exchange.ImportObservers(
                progress=bar,
                on_survey=surveys.add,
                on_count=bar.expect,
                conversations=conversations,
            ),
        )


def _default_sources(format_name: str | None) -> tuple[str, ...]:
    """Return the sessions of an agent program on this machine, if the format is one of them. Raises NotFound."""
    if format_name is None or all(host.name != format_name for host in HOSTS):
        return ()
    paths = find_sessions(format_name, Machine.current())
    if not paths:
        raise NotFound(f"no sessions of {format_name} on this machine; name the file or the folder")
    return tuple(map(str, paths))


def _import_changes(
    memoranda: Memoranda,
    names: tuple[str, ...],
    form: str | Importer | None,
    options: ImportOptions,
    run: GivenRun,
) -> None:
    """Import the sources again as they change, until the process is interrupted."""
    if not run.json:
        note(f"watching {', '.join(names)}; stop with Ctrl-C")
    try:
        for changed_sources in follow_sources(names):
            report = _import(memoranda, changed_sources, form, options, SurveyLog(is_quiet=True))
            if not run.json:
                note_report(report)
            if report.created or report.updated or report.refused:
                text = _summary(report, dry_run=False)
                run.answer(_document(report, dry_run=False), partial(line, text))
    except KeyboardInterrupt:
        # The normal end of watching.
        return


def _extract_statements(memoranda: Memoranda, namespace: Namespace) -> dict[str, object]:
    """Return what people stated in the conversations of a namespace, and the command to review it. Writes nothing."""
    run = memoranda.oams.verbs.consolidate(namespace, STATEMENTS, is_dry=True)
    outputs = [output for output in run.outputs if output.result in ("created", "updated")]
    statements = [
        {"text": output.memory["value"], "from": [key for key, _ in output.inputs]}
        for output in outputs
    ]
    review = (
        f"memoranda consolidate --strategy {STATEMENTS} --namespace {shlex.quote(str(namespace))}"
    )
    return {"namespace": str(namespace), "statements": statements, "review": review}


def _show(report: Report, candidates: list[dict[str, Any]], *, dry_run: bool) -> None:
    line(_summary(report, dry_run=dry_run))
    for candidate in candidates:
        statements = candidate["statements"]
        line(f"{count_phrase(len(statements), 'statement')} to review{':' if statements else ''}")
        for statement in statements[:_STATEMENTS_SHOWN]:
            line(f"  {one_line(statement['text'])}")
        if statements:
            line(
                f"None of them is stored yet. To see them in their conversations and confirm: {candidate['review']}"
            )


def _summary(report: Report, *, dry_run: bool) -> str:
    """Return the counts of an import in one line."""
    names = ["created", "merged", "refused"]
    if "oams" in report.forms:
        names = [
            "created",
            *(["merged"] if report.merged else []),
            "updated",
            "unchanged",
            "refused",
        ]
    text = ", ".join(f"{getattr(report, name)} {name}" for name in names)
    deleted = f", {report.forgotten} skipped (deleted here)" if report.forgotten else ""
    warnings = f", {count_phrase(report.warned, 'warning')}" if report.warned else ""
    return f"{'would be: ' if dry_run else ''}{text}{deleted}{warnings}"


def _document(report: Report, *, dry_run: bool) -> dict[str, object]:
    counts = ("created", "merged", "updated", "unchanged", "forgotten", "refused", "warned")
    return {
        **{name: getattr(report, name) for name in counts},
        "refusals": [refusal.document() for refusal in report.refusals],
        "warnings": report.warnings,
        **({"dry_run": True} if dry_run else {}),
    }


def _undo_import(sources: tuple[str, ...], run: GivenRun, *, is_dry: bool) -> int:
    if sources or is_dry:
        raise InvalidInput(
            "--undo undoes the whole last import: give no file, and leave out --dry-run"
        )
    with run.open() as memoranda, progress("undoing") as bar:
        undone = memoranda.ump.undo_import(progress=bar)
    counts = (
        f"{undone.forgotten} removed, {undone.restored} restored, {undone.left} kept (edited since)"
    )
    run.answer(undone.document(), lambda: line(f"{undone.what}: {counts}"))
    return 0


@dataclass(slots=True, kw_only=True)
class SurveyLog:
    """Surveys of sources from other systems: printed for a person when they are known, kept for the JSON answer."""

    is_quiet: bool
    surveys: list[dict[str, object]] = field(default_factory=list)

    def add(self, source: str, system: str, survey: Survey) -> None:
        """Add the survey of a source, with the number of its memories and users."""
        self.surveys.append(
            {"source": source, "system": system, "memories": survey.memories, "users": survey.users}
        )
        if not self.is_quiet:
            of_users = f" of {count_phrase(survey.users, 'user')}" if survey.users else ""
            note(
                f"{source}: from {system}, {count_phrase(survey.memories, 'memory', 'memories')}{of_users}"
            )

    def document(self) -> dict[str, object]:
        """Return the part of the JSON answer about sources."""
        return {"sources": self.surveys} if self.surveys else {}


def importer_of(format_name: str | None, columns: str | None) -> str | Importer | None:
    """Return the format of the sources, or an importer of tables for `--map`; None to detect it from each file."""
    if columns is not None and format_name not in (None, "table"):
        raise InvalidInput("--map names the columns of tables; leave out --format")
    return format_name if columns is None else table_with(columns)


def require_sources(sources: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sources, or standard input if there are none and input is piped in. Raises InvalidInput."""
    if not sources and sys.stdin.isatty():
        raise InvalidInput("no file given: name files or folders, or pipe records in")
    return sources or ("-",)
