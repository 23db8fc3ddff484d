"""oms inspect, verify, pack and unpack: grains in files, without a store.

The functions that read and check are in `bindings/files` (`mg_report.py` and its neighbours), which also the library
uses; here are the options and the printing. `verify` ends with exit code 1 if anything is wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from memoranda.bindings.files import mg, mg_report
from memoranda.bindings.files.folder import STANDARD_STREAM
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import count_phrase, line, note, note_report, one_line, progress
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput

if TYPE_CHECKING:
    from memoranda.bindings.files.mg_report import FileCheck


# Grains of one file: about a screenful.
_GRAINS_SHOWN = 10
# Characters of one field of a grain.
_FIELD_CHARS = 400


def inspect(
    *sources: Annotated[
        str,
        Parameter(name="FILE", help=".mg files, grains, envelopes, JSON; - for standard input."),
    ],
    address: Annotated[str | None, Parameter(help="Only the grain with this address.")] = None,
    limit: Annotated[
        int, Parameter(help="Grains to show of each file (default 10).", minimum=0)
    ] = _GRAINS_SHOWN,
    run: GivenRun,
) -> int:
    """Show the grains in files. No store is needed."""
    documents = []
    for source in _require_sources(sources):
        with mg.naming_source(source):
            documents.append(mg_report.describe(source, address=address, limit=limit))

    def show() -> None:
        for document in documents:
            _show_file(document)

    run.answer({"files": documents}, show)
    all_grains = (grain for document in documents for grain in document["grains"])
    return 1 if any(grain.get("signature_ok") is False for grain in all_grains) else 0


def _show_file(document: dict[str, Any]) -> None:
    line(f"{document['file']}: {document['kind']}", "bold")
    if "count" in document:
        types = ", ".join(f"{number} {name}" for name, number in document["types"].items())
        manifest = document["manifest"]
        line(
            f"  {count_phrase(document['count'], 'grain')}: {types or 'none'}; {document['signed']} signed"
        )
        line(
            f"  flags {' '.join(document['flags']) or 'none'}, codec {document['codec']}, checksum ok"
        )
        line(
            f"  manifest {count_phrase(manifest['entries'], 'entry', 'entries')}, {manifest['superseded']} superseded"
        )
    for grain in document["grains"]:
        _show_grain(grain)
    if (rest_count := document.get("count", 0) - len(document["grains"])) > 0:
        line(f"  and {rest_count} more; see them with --limit", "dim")


def _show_grain(grain: dict[str, Any]) -> None:
    head = grain["header"]
    line(f"{grain['address']}  {grain['type']}", "bold")
    flags = " ".join(head["flags"]) or "none"
    line(
        f"  version {head['version']}, flags {flags}, type {head['type_byte']}, {head['created_at']}"
    )
    size = count_phrase(grain["bytes"], "byte")
    line(f"  {grain['sensitivity']}, namespace hash {head['namespace_hash']}, {size}")
    if "signer" in grain:
        line(f"  signed by {grain['signer']} at {grain.get('issued_at', 'an unknown time')}")
    elif "signature_problem" in grain:
        line(f"  NOT VERIFIED: {grain['signature_problem']}")
    if "index" in grain:
        line("  index: " + ", ".join(f"{name} {value}" for name, value in grain["index"].items()))
    for name, value in grain["fields"].items():
        text = value if isinstance(value, str) else dump(value).decode("utf-8")
        line(f"  {name}: {one_line(text)[:_FIELD_CHARS]}")


def verify(
    *sources: Annotated[
        str, Parameter(name="FILE", help=".mg files, grains and envelopes; - for standard input.")
    ],
    recover: Annotated[
        str | None, Parameter(help="Write the intact grains of the damaged file to this .mg file.")
    ] = None,
    run: GivenRun,
) -> int:
    """Check checksums, every grain and every signature. Exit code 1 if anything fails."""
    if recover is not None and len(sources) != 1:
        raise InvalidInput("--recover: name exactly one damaged file")
    with progress("verifying") as bar:
        verdicts = []
        for source in _require_sources(sources):
            with mg.naming_source(source):
                verdicts.append(mg_report.verify(source, bar))
    saved = None
    if recover is not None and verdicts[0].report.refused:
        with progress("recovering") as bar:
            saved = mg.recover(sources[0], recover, bar).count

    def show() -> None:
        for verdict in verdicts:
            _show_verdict(verdict)
        if saved is not None:
            line(f"{count_phrase(saved, 'grain')} recovered to {recover}")

    is_ok = not any(verdict.report.refused for verdict in verdicts)
    document: dict[str, object] = {
        "ok": is_ok,
        "files": [_verdict_document(verdict) for verdict in verdicts],
    }
    if saved is not None:
        document["recovered"] = saved
    run.answer(document, show)
    return 0 if is_ok else 1


def _verdict_document(file_check: FileCheck) -> dict[str, object]:
    report = file_check.report
    return {
        "file": file_check.source,
        "ok": not report.refused,
        "verified": report.verified,
        "failures": [
            {"where": refusal.where, "code": refusal.code, "message": refusal.message}
            for refusal in report.refusals
        ],
        **({} if file_check.recoverable is None else {"recoverable": file_check.recoverable}),
    }


def _show_verdict(file_check: FileCheck) -> None:
    report = file_check.report
    note_report(report)
    if file_check.recoverable is not None:
        total = f" of {file_check.announced}" if file_check.announced is not None else ""
        note(
            f"{file_check.source}: {file_check.recoverable}{total} grains are intact; save them with --recover OUT.mg"
        )
    line(
        f"{file_check.source}: {count_phrase(report.verified, 'grain')} verified"
        + (", NOT ok" if report.refused else "")
    )


def pack(
    target: Annotated[str, Parameter(name="OUT", help="The file to write; - for standard output.")],
    /,
    *sources: Annotated[
        str,
        Parameter(
            name="INPUT", help="Grains, JSON or NDJSON of fields, .mg files; - for standard input."
        ),
    ],
    compress: Annotated[bool, Parameter(help="Compress with zstd.")] = False,
    order: Annotated[
        Literal["address", "created", "given"],
        Parameter(help="The order of grains in the file (default: address)."),
    ] = "address",
    run: GivenRun,
) -> None:
    """Put grains into one .mg file. Duplicates are written once."""
    with progress("packing") as bar:
        packed = mg.pack(
            target,
            mg.read_all_grains(_require_sources(sources)),
            order=order,
            compress=compress,
            progress=bar,
        )
    checksum = packed.checksum.hex()
    counts = {"packed": packed.count, "duplicates": packed.duplicates, "bytes": packed.size_bytes}
    if target == STANDARD_STREAM:
        note(f"{count_phrase(packed.count, 'grain')} packed")
        return
    duplicates = (
        f", {count_phrase(packed.duplicates, 'duplicate')} left out" if packed.duplicates else ""
    )
    run.answer(
        {**counts, "checksum": checksum, "target": target},
        lambda: line(f"{count_phrase(packed.count, 'grain')} packed into {target}{duplicates}"),
    )


def unpack(
    source: Annotated[str, Parameter(name="FILE", help="The .mg file; - for standard input.")],
    folder: Annotated[Path, Parameter(name="DIR", help="The folder for the files.")],
    /,
    *,
    shape: Annotated[
        Literal["grain", "json", "both"],
        Parameter(
            name="--as",
            help="One file per grain, grains.ndjson with the fields, or both (default: grain).",
        ),
    ] = "grain",
    run: GivenRun,
) -> None:
    """Unpack an .mg file: ADDRESS.grain, or ADDRESS.cose if signed, for each grain."""
    with progress("unpacking") as bar:
        count = mg.unpack(source, folder, shape, bar)
    run.answer(
        {"unpacked": count, "folder": str(folder)},
        lambda: line(f"{count_phrase(count, 'grain')} in {folder}"),
    )


def _require_sources(sources: tuple[str, ...]) -> tuple[str, ...]:
    if not sources and sys.stdin.isatty():
        raise InvalidInput("no file given: name files, or pipe one in")
    return sources or ("-",)
