"""Export to files, import from files, and verify files, with one codec for each form.

    form   codec     recognised by
    ump    formats   the name, or the first lines
    oms    mg        the first bytes
    oams   oams      the first lines, or a folder with a manifest
    oams   importers the contents that only another system's files have

A codec reads a source as a stream of items (`items`), each with its position for messages, and checks a source without
a store (`verify`). Exports and imports are streams: only one memory is held at a time.
"""

from __future__ import annotations

import sys
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO, Final, Generic, Protocol, TypeVar, cast

import msgspec

from memoranda.bindings.files import formats, mg, mg_report, oams
from memoranda.bindings.files.exporters import EXPORTERS, list_losses
from memoranda.bindings.files.folder import (
    STANDARD_STREAM,
    Folder,
    atomic_writer,
    display_name,
    open_path,
    rejoin_stream,
    standard_output,
)
from memoranda.bindings.files.formats import GRAINS, OAMS, FileFormat, Format
from memoranda.bindings.files.importers.importer import Importer
from memoranda.bindings.files.importers.registry import IMPORTERS, ImportCodec, recognise_importer
from memoranda.bindings.files.reader_process import Limits, OnSurvey, Request, read_in_process
from memoranda.errors import InvalidInput, MemorandaError, NamespaceNotFound, NotFound
from memoranda.model.instant import parse_instant
from memoranda.service.core.access import Access
from memoranda.service.exchange.adoption import NamespaceMapping
from memoranda.service.exchange.importing import DEFAULT_OPTIONS, ImportOptions, Item
from memoranda.service.exchange.report import Report
from memoranda.service.service import Service
from memoranda.standards.oams.memory import SESSION_KEY, Memory, metadata_of
from memoranda.standards.oams.namespace import Namespace, owner_hash, parse_namespace
from memoranda.standards.oms.manifest import IndexState
from memoranda.standards.ump import markdown
from memoranda.standards.ump.record import Record

Progress = Callable[[int], None]
T = TypeVar("T")


def ignore_progress(_: int) -> None:
    """Report progress to nobody."""


class Codec(Protocol):
    """The reader of one form of files."""

    def items(self, source: str, stream: IO[bytes] | None = None) -> Iterator[Item]:
        """Yield the memories of a source; a memory that cannot be read is an item with an error."""

    def verify(
        self, source: str, report: Report, progress: Progress, stream: IO[bytes] | None = None
    ) -> None:
        """Check every signature and address of a source; no store is needed."""

    def count(self, source: str) -> int | None:
        """Return the number of memories, or None if it is unknown before they are read."""


class _GrainFiles:
    """The codec of grains; `stream` is unused, because standard input has grains only if the caller says so."""

    def items(self, source: str, stream: IO[bytes] | None = None) -> Iterator[Item]:  # noqa: ARG002
        return mg.items(source)

    def verify(
        self,
        source: str,
        report: Report,
        progress: Progress,
        stream: IO[bytes] | None = None,  # noqa: ARG002
    ) -> None:
        try:
            report.add(mg_report.verify(source, progress).report)
        except MemorandaError as error:
            report.refuse(source, "", error)

    def count(self, source: str) -> int | None:
        return mg.count(source)


GRAIN_FILES: Final = _GrainFiles()


class FileSource(msgspec.Struct, frozen=True):
    """A file, a bundle or standard input, with its codec.

    `stream` replaces standard input if its first bytes were read to recognise the form.
    """

    name: str
    codec: Codec
    stream: IO[bytes] | None = None

    def items(self) -> Iterator[Item]:
        return self.codec.items(self.name, self.stream)


# --- exporting -------------------------------------------------------------------------------------------------------


def format_for_target(target: str) -> str:
    """Return the form for the name of a target; records for standard output. Raises InvalidInput."""
    if target == STANDARD_STREAM:
        return "ndjson"
    if oams.has_oams_name(target):
        return OAMS
    if target.lower().endswith(".csv"):
        return "csv"
    is_folder = target.endswith("/") or Path(target).is_dir()
    return "markdown" if is_folder else formats.require_format(target)


def find_losses(read_memories: Callable[[Report], Iterable[object]]) -> Report | None:
    """Read an export without writing it; return the report if a memory would be left out or redacted, else None."""
    report = Report()
    for _ in read_memories(report):
        pass
    return report if report.left_behind or report.redacted else None


def export_file(
    records: Iterable[Record],
    target: str,
    file_format: Format,
    progress: Progress = ignore_progress,
) -> int:
    """Write records to a file that appears complete or not at all, or to standard output; return their number."""
    counter = ProgressCounter(records, progress)
    if target == STANDARD_STREAM:
        with standard_output() as file:
            formats.write_records(file, counter, file_format)
    else:
        with atomic_writer(Path(target)) as file:
            formats.write_records(file, counter, file_format)
    return counter.count


def export_folder(
    records: Iterable[Record], folder: Path, progress: Progress = ignore_progress
) -> int:
    """Write one Markdown file for each record, and return their number; files of other memories stay."""
    folder.mkdir(parents=True, exist_ok=True)
    used_names = {path.name.casefold() for path in folder.iterdir()}
    names_by_id = dict(_names_by_id(folder))
    counter = ProgressCounter(records, progress)
    with Folder(folder) as opened_folder:
        for record in counter:
            name = names_by_id.get(record["id"]) or formats.file_name(record, used_names)
            used_names.add(name.casefold())
            opened_folder.write(name, markdown.render(record).encode("utf-8"))
    return counter.count


def export_grains(
    grains: Iterable[tuple[bytes, IndexState]],
    target: str,
    report: Report,
    progress: Progress = ignore_progress,
    *,
    compress: bool = False,
) -> int:
    """Write grains to an .mg file, and return their number; in the order of writing, so that an import keeps it."""
    return mg.pack(
        target, filter_packable(grains, report), order="given", compress=compress, progress=progress
    ).count


def filter_packable(
    grains: Iterable[tuple[bytes, IndexState]], report: Report
) -> Iterator[tuple[bytes, IndexState]]:
    """Yield the grains that fit into an .mg file; the report refuses the others."""
    return mg.filter_packable(grains, lambda address, error: report.refuse("", address, error))


def export_memories(
    memories: Iterable[tuple[bytes, Memory]],
    target: str,
    *,
    shape: oams.Shape,
    exported_at: int,
    overwrite: bool = False,
    reading: Progress = ignore_progress,
    sorting: Progress = ignore_progress,
) -> int:
    """Write memories to a bundle or a file of OAMS, and return their number."""
    counter = ProgressCounter(memories, reading)
    oams.write(
        counter,
        target,
        shape=shape,
        exported_at=exported_at,
        overwrite=overwrite,
        progress=sorting,
    )
    return counter.count


def export_system(
    service: Service,
    access: Access,
    target: str,
    system: str,
    report: Report,
    progress: Progress = ignore_progress,
) -> int:
    """Write memories to a file of another system, and return their number.

    The report warns of each part that the file cannot hold.
    """
    lost: Tally[str] = Tally()
    stated_memories = (
        memory for _, memory in service.oams.export(access, report=report, for_others=True)
    )
    memories = ProgressCounter(stated_memories, progress)
    own_hash = owner_hash(access.default_tenant)
    write_system(count_losses(memories, system, lost, own_hash), target, system, own_hash)
    for part, count in sorted(lost.items()):
        memories_text = "1 memory" if count == 1 else f"{count} memories"
        report.warn(system, f"cannot hold {part} ({memories_text})")
    return memories.count


def count_losses(
    memories: Iterable[Memory], system: str, lost: Tally[str], own_hash: str
) -> Iterator[Memory]:
    """Yield the memories, and count the parts of them that the file of a system cannot hold."""
    for memory in memories:
        lost.update(list_losses(memory, system, own_hash))
        yield memory


def write_system(memories: Iterable[Memory], target: str, system: str, own_hash: str) -> None:
    """Write memories to a file of another system; `own_hash` is the owner hash of the exporting owner."""
    lines = EXPORTERS[system](memories, own_hash)
    if target == STANDARD_STREAM:
        with standard_output() as file:
            file.writelines(lines)
    else:
        with atomic_writer(Path(target)) as file:
            file.writelines(lines)


def select_memories(
    service: Service, access: Access, report: Report, namespaces: Iterable[Namespace] = ()
) -> Iterator[tuple[bytes, Memory]]:
    """Return the memories of some namespaces, or of all. Raises NamespaceNotFound."""
    chosen_namespaces = sorted(set(namespaces))
    existing = set(service.oams.namespaces(access)) if chosen_namespaces else set()
    for namespace in chosen_namespaces:
        if str(namespace) not in existing:
            raise NamespaceNotFound(f"nothing was ever stored in {namespace}")
    return service.oams.export(access, namespaces=chosen_namespaces or None, report=report)


def require_single(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the only record. Raises InvalidInput at a second one; a file that is being written then never appears."""
    for count, record in enumerate(records):
        if count:
            raise InvalidInput(
                "a .ump.md file holds one memory, so that others can read it; name a folder (NAME/) for one file each, "
                "an .ndjson file, one memory with --id, or use --book"
            )
        yield record


def _names_by_id(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the id and the file name of each record that a folder has already."""
    for path in formats.list_record_files(folder):
        if path.name.endswith(formats.MARKDOWN_ENDING):
            with open_path(path) as file:
                records = [record for _, record in formats.read_records(file, "markdown")]
            if (
                len(records) == 1
                and isinstance(records[0], dict)
                and isinstance(records[0].get("id"), str)
            ):
                yield records[0]["id"], path.name


class ProgressCounter(Generic[T]):
    """An iterable that counts its items and reports the count."""

    def __init__(self, passing: Iterable[T], progress: Progress) -> None:
        self._passing = passing
        self._progress = progress
        self.count = 0

    def __iter__(self) -> Iterator[T]:
        for item in self._passing:
            yield item
            self.count += 1
            self._progress(self.count)


# --- importing -------------------------------------------------------------------------------------------------------


class ImportObservers(msgspec.Struct, frozen=True, kw_only=True):
    """Callbacks and collections that follow the course of an import."""

    # Gets the number of memories imported so far.
    progress: Progress | None = None
    # Gets the contents of each source of another system, before the first memory.
    on_survey: OnSurvey | None = None
    # Gets the number of all memories, if it is known, before the first memory.
    on_count: Progress | None = None
    # Collects the namespaces that have memories of conversations.
    conversations: set[Namespace] | None = None


NO_OBSERVERS: Final = ImportObservers()


def import_files(
    import_items: Callable[..., Report],
    owner: str,
    sources: Iterable[str],
    *,
    form: str | Importer | None = None,
    options: ImportOptions = DEFAULT_OPTIONS,
    observers: ImportObservers = NO_OBSERVERS,
    limits: Limits | None = None,
) -> Report:
    """Import the memories of files and folders of any form, and return the report.

    `import_items` is the verb that imports, of a store or of a server, and `owner` the owner that it imports for.
    `form` is a form or a system that replaces recognition.

    With `limits` a separate process reads the files, within these limits, because they are not trusted.
    """
    report = Report()
    names, own_hash, into = list(sources), owner_hash(owner), options.into
    on_survey, on_count = observers.on_survey, observers.on_count
    with ExitStack() as reader:
        items: Iterator[Item]
        if limits is None:
            items = read_sources(
                names,
                form,
                own_hash,
                report,
                is_moved=into is not None,
                on_survey=on_survey,
                on_count=on_count,
            )
        else:
            request = Request(
                names=names,
                form=cast("str | None", form),
                own=own_hash,
                is_moved=into is not None,
                is_surveyed=on_survey is not None,
                is_counted=on_count is not None,
                limits=limits,
            )
            items = reader.enter_context(read_in_process(request, report, on_survey, on_count))
        if observers.conversations is not None:
            renaming = NamespaceMapping(into=into, tenant=owner if options.adopt else None)
            items = _collect_conversations(items, observers.conversations, renaming)
        return import_items(
            items,
            adopt=options.adopt,
            into=into,
            restore=options.restore,
            is_dry=options.is_dry,
            progress=observers.progress,
            report=report,
            label=", ".join(map(_base_name, names)),
        )


def read_sources(
    names: Iterable[str],
    form: str | Importer | None,
    own_hash: str,
    report: Report,
    *,
    is_moved: bool = False,
    on_survey: OnSurvey | None = None,
    on_count: Progress | None = None,
) -> Iterator[Item]:
    """Return the memories of files and folders, after telling what they hold; those to be moved must be of OAMS."""
    file_sources = list(find_sources(names, report, form, own_hash))
    for source in file_sources:
        has_namespaces = source.codec is oams or (
            isinstance(source.codec, ImportCodec) and not source.codec.importer.has_grains
        )
        if is_moved and not has_namespaces:
            raise InvalidInput(
                f"--namespace is for memories of OAMS, and {display_name(source.name)} holds none"
            )
    survey(file_sources, on_survey, on_count)
    return chain.from_iterable(source.items() for source in file_sources)


def _base_name(source: str) -> str:
    """Return the name of a source without its folders, which the list of imports does not show."""
    return display_name(source) if source == STANDARD_STREAM else Path(source).resolve().name


def _collect_conversations(
    items: Iterable[Item], conversations: set[Namespace], renaming: NamespaceMapping
) -> Iterator[Item]:
    """Yield the items, and collect the namespaces that messages of conversations will have after the import."""
    for item in items:
        is_memory = item.form == "oams" and isinstance(item.value, dict)
        if is_memory and item.error is None and SESSION_KEY in metadata_of(item.value):
            their_namespace = parse_namespace(item.value["namespace"])
            conversations.add(renaming.map_namespace(their_namespace, is_foreign=item.is_foreign))
        yield item


def survey(
    sources: Iterable[FileSource], on_survey: OnSurvey | None, on_count: Progress | None
) -> None:
    """Report what each source of another system contains, then the number of memories in all."""
    total: int | None = 0
    for source in sources:
        count: int | None = None
        if isinstance(source.codec, ImportCodec) and (
            on_survey is not None or on_count is not None
        ):
            result = source.codec.survey(source.name)
            count = result.memories + result.unreadable
            if on_survey is not None:
                on_survey(source.name, source.codec.importer.title, result)
        elif on_count is not None and source.name != STANDARD_STREAM:
            count = source.codec.count(source.name)
        total = None if count is None or total is None else total + count
    if on_count is not None and total:
        on_count(total)


def verify_files(
    sources: Iterable[str], *, form: str | None = None, progress: Progress | None = None
) -> Report:
    """Check the integrity block of every record, and every grain, in files and folders; no store is needed."""
    report = Report()
    for source in find_sources(sources, report, form):
        source.codec.verify(source.name, report, progress or ignore_progress, source.stream)
    return report


def find_sources(
    names: Iterable[str], report: Report, form: str | Importer | None, own_hash: str = ""
) -> Iterator[FileSource]:
    """Yield the sources of a list of names: files and bundles, and the files of any other folder.

    `form` is a form or a system that replaces recognition. A missing file is refused in the report.
    """
    importer = form if isinstance(form, Importer) else IMPORTERS.get(form or "")
    form_name = form if isinstance(form, str) else None
    for name in names:
        path = Path(name)
        if isinstance(importer, Importer) and (path.exists() or name == STANDARD_STREAM):
            yield FileSource(name, ImportCodec(importer, own_hash))
        elif (
            name == STANDARD_STREAM
            or path.is_file()
            or (path.is_dir() and _is_bundle(name, form_name))
        ):
            yield _recognise_file(name, form_name, own_hash)
        elif path.is_dir():
            yield from _sources_in_folder(path, report, form_name, own_hash)
        elif path.exists():
            # A pipe or a device, which may never end.
            report.refuse(name, "", InvalidInput("this is neither a file nor a folder"))
        else:
            report.refuse(name, "", NotFound("there is no such file or folder"))


def _sources_in_folder(
    folder: Path, report: Report, form: str | None, own_hash: str
) -> Iterator[FileSource]:
    """Yield a folder of another system as one source, or else the files of a folder.

    A folder without any file of a known form is refused in the report.
    """
    importer = recognise_importer(folder) if form is None else None
    if importer is not None:
        yield FileSource(str(folder), ImportCodec(importer, own_hash))
        return
    paths = [*_sort_by_age(formats.list_record_files(folder)), *formats.list_grain_files(folder)]
    paths += [
        path
        for path in formats.list_plain_files(folder)
        if path not in paths and recognise_importer(path) is not None
    ]
    yield from (_recognise_file(str(path), form, own_hash) for path in paths)
    # An empty folder, such as the export of an empty store, is no error.
    if not paths and any(folder.iterdir()):
        report.refuse(str(folder), "", NotFound("this folder has no file of a known form"))


def _is_bundle(folder: str, form: str | None) -> bool:
    return form == OAMS or (form is None and oams.is_oams(folder))


_CODECS: Final[dict[str, Codec]] = {GRAINS: GRAIN_FILES, OAMS: oams}


def _recognise_file(name: str, form: str | None, own_hash: str) -> FileSource:
    if form is not None:
        return FileSource(name, _CODECS.get(form) or formats.Records(cast("FileFormat", form)))
    if name == STANDARD_STREAM:
        shape, first_bytes = oams.detect_shape(sys.stdin.buffer)
        stream = rejoin_stream(first_bytes, sys.stdin.buffer)
        return FileSource(name, formats.RECORDS if shape is None else oams, stream)
    if Path(name).is_dir():
        # A bundle: recognised by name alone, because its README could be a note of another system.
        return FileSource(name, oams)
    # Importers come first: a bundle of areev begins almost like a file of grains, and LangGraph's items have fields
    # named like those of OAMS, so only their contents tell.
    importer = recognise_importer(Path(name))
    if importer is not None:
        return FileSource(name, ImportCodec(importer, own_hash))
    if mg.is_grain_file(name):
        return FileSource(name, GRAIN_FILES)
    return FileSource(name, oams if oams.is_oams(name) else formats.RECORDS)


def _sort_by_age(paths: Iterable[Path]) -> list[Path]:
    """Return files with older records first, and a superseded record always before its successor."""
    ages: dict[Path, int] = {}
    before: dict[str, list[Path]] = {}
    names: dict[Path, str] = {}
    for path in paths:
        ages[path] = 0
        if formats.format_by_name(path.name) == "markdown":
            for item in formats.RECORDS.items(str(path)):
                ages[path] = _creation_instant(item)
                if isinstance(item.value, dict):
                    names[path] = str(item.value.get("id"))
                    for successor in item.value.get("superseded_by") or ():
                        before.setdefault(str(successor), []).append(path)
    sorted_paths: dict[Path, None] = {}
    waiting = sorted(ages, key=lambda path: (ages[path], path.name), reverse=True)
    while waiting:
        path = waiting[-1]
        # `pop`: each name is looked up only once, so files that name each other in a circle do not repeat for ever.
        if path not in sorted_paths and (predecessor := before.pop(names.get(path, ""), None)):
            waiting += predecessor
        else:
            sorted_paths.setdefault(waiting.pop())
    return list(sorted_paths)


def _creation_instant(item: Item) -> int:
    try:
        return parse_instant(item.value["time"]["created"])
    except (LookupError, TypeError, ValueError, OverflowError):
        return 0
