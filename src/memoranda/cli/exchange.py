"""export, import and verify."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

from memoranda.cli.commands import Parameter
from memoranda.cli.run import GivenRun
from memoranda.cli.show import audit_entries, counted, line, note, note_report, one_line, progress, progress_steps
from memoranda.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from memoranda.app import Memoranda
    from memoranda.bindings.files.importers.importer import Importer, Survey
    from memoranda.service.core.access import Access
    from memoranda.service.report import Report
    from memoranda.service.service import Service
    from memoranda.service.verify import VerifyReport
    from memoranda.standards.oams.namespace import Namespace
    from memoranda.standards.oms.manifest import IndexState
    from memoranda.standards.ump.record import Record

_STATEMENTS_SHOWN: Final = 10
RecordFormat = Literal["json", "ndjson", "markdown"]
FormatName = Literal[RecordFormat, "mg", "oams"]
# And what other systems leave; the names of their importers.
SystemName = Literal[
    "mem0",
    "server-memory",
    "langgraph",
    "chatgpt",
    "claude",
    "basic-memory",
    "memory-tool",
    "agent-rules",
    "notes",
    "zep",
    "mempalace",
    "rem",
    "areev",
    "letta",
    "langchain",
    "pam",
    "mif",
    "table",
]
# To which memories leave again.
TargetName = Literal["mem0", "langgraph", "server-memory", "csv"]
FormatOption = Annotated[
    FormatName | None, Parameter(name="--format", help="The format, if the name does not tell it.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What only OAMS has."""

    namespace: Annotated[
        tuple[str, ...], Parameter(help="With OAMS, only this namespace, or scope of your own; can be repeated.")
    ] = ()
    overwrite: Annotated[bool, Parameter(help="With OAMS, replace the bundle that is there already.")] = False


EVERYTHING = Bundle()


def export(
    target: Annotated[str, Parameter(name="FILE", help="The file, a folder ending in /, or - for standard output.")],
    /,
    *,
    known: Annotated[
        Literal[FormatName, TargetName] | None,
        Parameter(name="--format", help="The format, or another system; if the name does not tell it."),
    ] = None,
    project: Annotated[str | None, Parameter(help="Only memories of this project.")] = None,
    history: Annotated[
        bool | None,
        Parameter(negative="--no-history", help="Earlier versions too; by default in a file, not in a folder."),
    ] = None,
    name: Annotated[tuple[str, ...], Parameter(name="--id", help="Only this memory; can be repeated.")] = (),
    compress: Annotated[bool, Parameter(help="Compress an .mg file with zstd.")] = False,
    book: Annotated[bool, Parameter(help="Several memories in one .ump.md file, which only Memoranda reads.")] = False,
    strict: Annotated[bool, Parameter(help="Write nothing if anything would stay behind or be cut.")] = False,
    bundle: Bundle = EVERYTHING,
    run: GivenRun,
) -> int:
    """Write memories to a file: .ump.json, .ndjson, .mg, or .ump.md for one memory; or to a folder, one .ump.md each.

    With --format oams to a bundle of the Open Agent Memory Standard, which is a folder, or to one .jsonl or .md file of
    it. What its consent keeps here does not leave, and what was forgotten neither. What stays behind is said by
    name, and the exit code is 1.
    """
    from memoranda.bindings.files import exchange

    to_folder = target.endswith("/") or (target != "-" and Path(target).is_dir())
    shape = known or cast("FormatName | TargetName", exchange.form_of(target))
    if compress and shape != "mg":
        raise InvalidInput("--compress is for .mg files")
    if book and (to_folder or shape != "markdown"):
        raise InvalidInput("--book is for one .ump.md file")
    if shape in ("mem0", "langgraph", "server-memory", "csv"):
        if project is not None or history is not None or name or strict or to_folder:
            raise InvalidInput("to another system everything that is stated now leaves, into one file")
        return _export_system(target, shape, run)
    if shape == "oams":
        if project is not None or history is not None or name:
            raise InvalidInput("OAMS has no projects, histories and ids; choose with --namespace")
        return _export_memories(target, bundle, strict, run)
    if bundle != EVERYTHING:
        raise InvalidInput("--namespace and --overwrite go with --format oams")
    if to_folder and shape != "markdown":
        raise InvalidInput("a folder holds Markdown files; for one file of another format, give its name")
    if shape == "mg":
        return _export_grains(target, project, history, name, compress, strict, run)
    # Earlier versions are records of their own, and a file of several is a book.
    is_one = shape == "markdown" and not to_folder and not book
    whole = history if history is not None else not to_folder and not is_one
    return _export_records(target, cast("RecordFormat", shape), is_one, project, whole, name, strict, run)


def _export_records(
    target: str,
    shape: RecordFormat,
    is_one: bool,
    project: str | None,
    history: bool,
    names: tuple[str, ...],
    strict: bool,
    run: GivenRun,
) -> int:
    from memoranda.bindings.files import exchange
    from memoranda.service.report import Report

    to_folder = target.endswith("/") or (target != "-" and Path(target).is_dir())
    answer = _Exported(target=target, what="record", beside={"format": shape}, run=run)
    with run.open() as memoranda, progress("exporting") as done:

        def leaving(report: Report) -> Iterator[Record]:
            return memoranda.service.export(
                memoranda.access, project=project, history=history, names=names or None, report=report
            )

        if strict and (found := exchange.look_first(leaving)):
            return answer.refuse(found)
        report = Report()
        records = _at_least_one(leaving(report)) if names else leaving(report)
        records = exchange.at_most_one(records) if is_one else records
        if to_folder:
            count = exchange.export_folder(records, Path(target), done)
        else:
            count = exchange.export_file(records, target, shape, done)
    return answer.give(count, report)


def _export_memories(target: str, bundle: Bundle, strict: bool, run: GivenRun) -> int:
    from memoranda.bindings.files import exchange
    from memoranda.bindings.files.oams import shape_by_name
    from memoranda.opening import system_clock
    from memoranda.service.report import Report

    report, shape = Report(), shape_by_name(target)
    if bundle.overwrite and shape != "bundle":
        raise InvalidInput("--overwrite is for a bundle; a file is replaced anyway")
    answer = _Exported(target=target, what="memory", beside={"format": "oams", "form": shape}, run=run)
    with run.open() as memoranda, progress_steps("reading", "writing") as (reading, sorting):
        service, access = memoranda.service, memoranda.access
        chosen = [memoranda.oams.namespace(each) for each in bundle.namespace]
        if strict and (found := exchange.look_first(partial(_memories, service, access, chosen))):
            return answer.refuse(found)
        count = exchange.export_memories(
            service,
            access,
            target,
            report,
            shape=shape,
            exported_at=system_clock(),
            namespaces=chosen,
            overwrite=bundle.overwrite,
            reading=reading,
            sorting=sorting,
        )
    return answer.give(count, report)


def _export_system(target: str, system: TargetName, run: GivenRun) -> int:
    from memoranda.bindings.files import exchange
    from memoranda.service.report import Report

    report, answer = Report(), _Exported(target=target, what="memory", beside={"format": system}, run=run)
    with run.open() as memoranda, progress("exporting") as done:
        count = exchange.export_system(memoranda.service, memoranda.access, target, system, report, done)
    return answer.give(count, report)


def _memories(service: Service, access: Access, chosen: list[Namespace], report: Report) -> Iterator[object]:
    from memoranda.bindings.files import exchange

    return exchange.leaving_memories(service, access, report, chosen)


def _export_grains(
    target: str,
    project: str | None,
    history: bool | None,
    names: tuple[str, ...],
    compress: bool,
    strict: bool,
    run: GivenRun,
) -> int:
    from memoranda.bindings.files import exchange
    from memoranda.service.report import Report

    if names:
        raise InvalidInput("--id goes with records; get one grain with: memoranda oms get ADDRESS --raw")
    answer = _Exported(target=target, what="grain", beside={"format": "mg"}, run=run)
    with run.open() as memoranda, progress("exporting") as done:

        def leaving(report: Report) -> Iterator[tuple[bytes, IndexState]]:
            whole = history is not False
            return memoranda.service.grains.export(memoranda.access, namespace=project, history=whole, report=report)

        if strict and (found := exchange.look_first(lambda looked: exchange.packable(leaving(looked), looked))):
            return answer.refuse(found)
        report = Report()
        count = exchange.export_grains(leaving(report), target, report, done, compress=compress)
    return answer.give(count, report)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exported:
    """How an export is answered: what left, and what of the rest did not and why."""

    target: str
    what: str
    beside: dict[str, object]
    run: GivenRun

    def give(self, count: int, report: Report) -> int:
        """Say how many left; 1 if anything stayed behind."""
        self._answer(count, report, f"{self._counted(count)} exported")
        return 1 if report.left_behind else 0

    def refuse(self, report: Report) -> int:
        """Say why nothing was written."""
        why = f"{self._counted(report.left_behind)} would stay behind, and {report.redacted} would be cut"
        self._answer(0, report, f"nothing written: {why}", is_written=False)
        return 1

    def _counted(self, count: int) -> str:
        return counted(count, self.what, "memories" if self.what == "memory" else None)

    def _answer(self, count: int, report: Report, said: str, *, is_written: bool = True) -> None:
        if not self.run.json or self.target == "-":
            note_report(report)
        if self.target == "-":
            note(said)
            return
        document: dict[str, object] = {
            "exported": count,
            "target": self.target,
            **self.beside,
            "left_out": report.refused,
            "refusals": [each.document() for each in report.refusals],
            "kept": report.kept,
            "redacted": report.redacted,
            "warnings": report.warnings,
        }
        self.run.answer(document, lambda: line(f"{said} to {self.target}" if is_written else said))


def _at_least_one(records: Iterator[Record]) -> Iterator[Record]:
    """The records; raised while the file is still being written, NotFound leaves none behind."""
    count = 0
    for count, record in enumerate(records, start=1):  # noqa: B007
        yield record
    if not count:
        raise NotFound("none of these memories may leave: they are forgotten, or their consent keeps them here")


def import_files(
    *sources: Annotated[str, Parameter(name="FILE", help="Files, folders, or - for standard input.")],
    known: Annotated[
        Literal[FormatName, SystemName] | None,
        Parameter(name="--format", help="The format or the system, if the file does not tell it."),
    ] = None,
    adopt: Annotated[
        bool, Parameter(help="Make them your own: the owner becomes you, and you sign in place of who did.")
    ] = False,
    namespace: Annotated[
        str | None, Parameter(help="Put memories of OAMS into this namespace, or scope of your own.")
    ] = None,
    columns: Annotated[
        str | None, Parameter(name="--map", help="The columns of a table: text=NAME,user=NAME,created=NAME and so on.")
    ] = None,
    restore: Annotated[bool, Parameter(help="Bring back what was forgotten here since the file was written.")] = False,
    dry_run: Annotated[bool, Parameter(help="Say what would be taken in, and do nothing.")] = False,
    extract: Annotated[
        bool,
        Parameter(help="Show what people stated in conversations that came, for review; nothing of it is written."),
    ] = False,
    undo: Annotated[
        bool, Parameter(help="Take back the last import: no file is named, and what changed since stays.")
    ] = False,
    run: GivenRun,
) -> int:
    """Take memories in from files or folders, in any of the formats. What is refused is reported with its reason.

    Files of grains (.mg) are known by their first bytes; from standard input they need --format mg. Bundles and files
    of OAMS are known by what they hold; a bundle is compared with its manifest before anything is taken in. So are
    memories of other systems, which keep their original document. --undo takes back what the last import brought.
    """
    from memoranda.bindings.files import exchange

    if undo:
        return _undo_import(sources, run, is_dry=dry_run)
    if adopt and namespace is not None:
        raise InvalidInput("--adopt keeps the scopes and --namespace does not; say one of them")
    if extract and dry_run:
        raise InvalidInput("--extract reads what was taken in; it does not go with a dry run")
    surveys = Surveys(is_quiet=run.json)
    spoken: set[Namespace] = set()
    with run.open() as memoranda, progress("importing") as done:
        report = exchange.import_files(
            memoranda.ump.import_items,
            memoranda.owner,
            _sources(sources),
            known=system_of(known, columns),
            adopt=adopt,
            into=None if namespace is None else memoranda.oams.namespace(namespace),
            restore=restore,
            is_dry=dry_run,
            progress=done,
            found=surveys.add,
            expect=done.expect,
            spoken=spoken if extract else None,
        )
        stated = [_stated(memoranda, each) for each in sorted(spoken)]
    if not run.json:
        note_report(report)
    document = {**_import_document(report, dry_run=dry_run), **surveys.document()}
    run.answer(
        {**document, **({"candidates": stated} if extract else {})}, lambda: _show_import(report, dry_run, stated)
    )
    return 1 if report.refused else 0


def _stated(memoranda: Memoranda, namespace: Namespace) -> dict[str, Any]:
    """What people stated in the conversations of a namespace, and how to review it; nothing is written."""
    from memoranda.standards.oams.memory import STATEMENTS

    found = memoranda.oams.verbs.consolidate(namespace, STATEMENTS, is_dry=True)
    new = [each for each in found.outputs if each.result in ("created", "updated")]
    statements = [{"text": each.memory["value"], "from": [key for key, _ in each.inputs]} for each in new]
    review = f"memoranda consolidate --strategy {STATEMENTS} --namespace {shlex.quote(str(namespace))}"
    return {"namespace": str(namespace), "statements": statements, "review": review}


def _show_import(report: Report, dry_run: bool, stated: list[dict[str, Any]]) -> None:
    line(_import_line(report, dry_run=dry_run))
    for each in stated:
        statements = each["statements"]
        line(f"{counted(len(statements), 'statement')} to review{':' if statements else ''}")
        for statement in statements[:_STATEMENTS_SHOWN]:
            line(f"  {one_line(statement['text'])}")
        if statements:
            line(f"none of them is remembered yet; to see them with their turns, and agree: {each['review']}")


@dataclass(slots=True, kw_only=True)
class Surveys:
    """What sources of other systems hold, said to a person when it is known."""

    is_quiet: bool
    found: list[dict[str, object]] = field(default_factory=list)

    def add(self, source: str, system: str, survey: Survey) -> None:
        self.found.append({"source": source, "system": system, "memories": survey.memories, "users": survey.users})
        if not self.is_quiet:
            of_users = f" of {counted(survey.users, 'user')}" if survey.users else ""
            note(f"{source}: from {system}, {counted(survey.memories, 'memory', 'memories')}{of_users}")

    def document(self) -> dict[str, object]:
        return {"sources": self.found} if self.found else {}


def system_of(known: str | None, columns: str | None) -> str | Importer | None:
    """What the files are said to be; whoever names columns says that they are tables."""
    from memoranda.bindings.files.importers.table import table_with

    if columns is not None and known not in (None, "table"):
        raise InvalidInput("--map names the columns of tables; say it without --format")
    return known if columns is None else table_with(columns)


def _undo_import(sources: tuple[str, ...], run: GivenRun, *, is_dry: bool) -> int:
    if sources or is_dry:
        raise InvalidInput("--undo takes back the last import as a whole; it goes with no file and no dry run")
    with run.open() as memoranda, progress("taking back") as done:
        undone = memoranda.ump.undo_import(progress=done)
    said = f"{undone.forgotten} forgotten again, {undone.restored} as before, {undone.left} changed since and left"
    run.answer(undone.document(), lambda: line(f"{undone.what}: {said}"))
    return 0


def _import_document(report: Report, *, dry_run: bool) -> dict[str, object]:
    counts = ("created", "merged", "updated", "unchanged", "forgotten", "refused", "warned")
    return {
        **{name: getattr(report, name) for name in counts},
        "refusals": [each.document() for each in report.refusals],
        "warnings": report.warnings,
        **({"dry_run": True} if dry_run else {}),
    }


def _import_line(report: Report, *, dry_run: bool) -> str:
    names = ["created", "merged", "refused"]
    if "oams" in report.forms:
        names = ["created", *(["merged"] if report.merged else []), "updated", "unchanged", "refused"]
    said = ", ".join(f"{getattr(report, name)} {name}" for name in names)
    said += f", {report.forgotten} left forgotten" if report.forgotten else ""
    warned = f", {counted(report.warned, 'warning')}" if report.warned else ""
    return f"{'would be: ' if dry_run else ''}{said}{warned}"


def _sources(sources: tuple[str, ...]) -> tuple[str, ...]:
    if not sources and sys.stdin.isatty():
        raise InvalidInput("no file given: name files or folders, or pipe records in")
    return sources or ("-",)


def verify(
    *sources: Annotated[str, Parameter(name="FILE", help="Files or folders; nothing means the whole store.")],
    known: FormatOption = None,
    run: GivenRun,
) -> int:
    """Check every signature: of the store, of all its owners, with audit and database, or of the records in files."""
    if sources:
        return _verify_files(sources, known, run)
    with run.open() as memoranda, progress("verifying") as done:
        report = memoranda.service.verify_store(progress=done)
    run.answer(report.document(), lambda: _show_store(report))
    return 0 if report.ok else 1


def _verify_files(sources: tuple[str, ...], known: FormatName | None, run: GivenRun) -> int:
    from memoranda.bindings.files import exchange

    with progress("verifying") as done:
        report = exchange.verify_files(sources, known=known, progress=done)
    if not run.json:
        note_report(report)
    document = {
        "ok": not report.refused,
        "verified": report.verified,
        "failed": report.refused,
        "failures": [each.document() for each in report.refusals],
    }
    run.answer(document, lambda: line(f"{counted(report.verified, 'record')} verified, {report.refused} failed"))
    return 1 if report.refused else 0


def _show_store(report: VerifyReport) -> None:
    for name in report.unverified:
        note(f"{name}: the stored record does not match its signature")
    for problem in report.database:
        note(f"database: {problem}")
    for problem in report.index:
        note(f"{problem}; `memoranda reindex` makes it anew")
    for loss in report.losses:
        note(loss.words)
    if not report.audit.ok:
        note(f"the audit chain is broken at entry {report.audit.broken_at}: {report.audit.reason}")
    verdict = "all is well" if report.ok else "something is wrong"
    entries = audit_entries(report.audit)
    line(f"{counted(report.records, 'record')} of {counted(report.owners, 'owner')}, {entries}: {verdict}")
