"""oms inspect, verify, pack, unpack, sign and disclose: grains in files. Only `disclose ADDRESS` opens the store."""

from __future__ import annotations

import os
import re
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from memoranda.cli.commands import Parameter
from memoranda.cli.run import GivenRun
from memoranda.cli.show import counted, line, note, note_report, one_line, progress
from memoranda.errors import InvalidInput

if TYPE_CHECKING:
    from memoranda.bindings.files.mg_report import Checked
    from memoranda.standards.oms.grains import Grain

_ADDRESS = re.compile(r"[0-9a-f]{64}", re.ASCII)
STANDARD_STREAM = "-"
# A screenful each; the file says the rest.
SHOWN_GRAINS = 10


def inspect(
    *sources: Annotated[str, Parameter(name="FILE", help=".mg files, grains, envelopes, JSON; - for standard input.")],
    address: Annotated[str | None, Parameter(help="Only the grain with this address.")] = None,
    limit: Annotated[int, Parameter(help="Show at most so many grains of each file; 10 unless said.")] = SHOWN_GRAINS,
    run: GivenRun,
) -> int:
    """Show what files of grains hold. No store is needed."""
    from memoranda.bindings.files.mg import placed
    from memoranda.bindings.files.mg_report import describe

    documents = []
    for source in _required(sources):
        with placed(source):
            documents.append(describe(source, address=address, limit=max(0, limit)))

    def say() -> None:
        for document in documents:
            _show_file(document)

    run.answer({"files": documents}, say)
    shown = (grain for document in documents for grain in document["grains"])
    return 1 if any(grain.get("signature_ok") is False for grain in shown) else 0


def _show_file(document: dict[str, Any]) -> None:
    line(f"{document['file']}: {document['kind']}", "bold")
    if "count" in document:
        types = ", ".join(f"{number} {name}" for name, number in document["types"].items())
        known = document["manifest"]
        line(f"  {counted(document['count'], 'grain')}: {types or 'none'}; {document['signed']} signed")
        line(f"  flags {' '.join(document['flags']) or 'none'}, codec {document['codec']}, checksum ok")
        line(f"  manifest {counted(known['entries'], 'entry', 'entries')}, {known['superseded']} superseded")
    for grain in document["grains"]:
        _show_grain(grain)
    if (more := document.get("count", 0) - len(document["grains"])) > 0:
        line(f"  and {more} more; see them with --limit", "dim")


def _show_grain(grain: dict[str, Any]) -> None:
    from memoranda.encoding.json_text import dump

    head = grain["header"]
    line(f"{grain['address']}  {grain['type']}", "bold")
    flags = " ".join(head["flags"]) or "none"
    line(f"  version {head['version']}, flags {flags}, type {head['type_byte']}, {head['created_at']}")
    size = counted(grain["bytes"], "byte")
    line(f"  {grain['sensitivity']}, namespace hash {head['namespace_hash']}, {size}")
    if "signer" in grain:
        line(f"  signed by {grain['signer']} at {grain.get('issued_at', 'an unknown time')}")
    elif "signature_problem" in grain:
        line(f"  NOT VERIFIED: {grain['signature_problem']}")
    if "index" in grain:
        line("  index: " + ", ".join(f"{name} {value}" for name, value in grain["index"].items()))
    for name, value in grain["fields"].items():
        shown = value if isinstance(value, str) else dump(value).decode("utf-8")
        line(f"  {name}: {one_line(shown)[:400]}")


def verify(
    *sources: Annotated[str, Parameter(name="FILE", help=".mg files, grains and envelopes; - for standard input.")],
    recover: Annotated[
        str | None, Parameter(help="Write the whole grains of the damaged file to this .mg file.")
    ] = None,
    run: GivenRun,
) -> int:
    """Check checksums, every grain and every signature. Exit code 1 if anything fails."""
    from memoranda.bindings.files import mg, mg_report

    if recover is not None and len(sources) != 1:
        raise InvalidInput("--recover: name the one damaged file")
    with progress("verifying") as done:
        verdicts = []
        for source in _required(sources):
            with mg.placed(source):
                verdicts.append(mg_report.verify(source, done))
    saved = None
    if recover is not None and verdicts[0].report.refused:
        with progress("recovering") as done:
            saved = mg.recover(sources[0], recover, done).count

    def say() -> None:
        for verdict in verdicts:
            _show_verdict(verdict)
        if saved is not None:
            line(f"{counted(saved, 'grain')} recovered to {recover}")

    document = {
        "ok": not any(each.report.refused for each in verdicts),
        "files": [_verdict_document(each) for each in verdicts],
    }
    run.answer({**document, **({} if saved is None else {"recovered": saved})}, say)
    return 0 if document["ok"] else 1


def _verdict_document(checked: Checked) -> dict[str, Any]:
    report = checked.report
    return {
        "file": checked.source,
        "ok": not report.refused,
        "verified": report.verified,
        "failures": [{"where": each.where, "code": each.code, "message": each.message} for each in report.refusals],
        **({} if checked.recoverable is None else {"recoverable": checked.recoverable}),
    }


def _show_verdict(checked: Checked) -> None:
    report = checked.report
    note_report(report)
    if checked.recoverable is not None:
        of = f" of {checked.announced}" if checked.announced is not None else ""
        note(f"{checked.source}: {checked.recoverable}{of} grains are whole and can be recovered with --recover OUT.mg")
    line(f"{checked.source}: {counted(report.verified, 'grain')} verified" + (", NOT ok" if report.refused else ""))


def pack(
    target: Annotated[str, Parameter(name="OUT", help="The file to write; - for standard output.")],
    /,
    *sources: Annotated[
        str, Parameter(name="INPUT", help="Grains, JSON or NDJSON of fields, .mg files; - for standard input.")
    ],
    compress: Annotated[bool, Parameter(help="Compress with zstd.")] = False,
    order: Annotated[
        Literal["address", "created", "given"], Parameter(help="How grains lie in the file; address unless said.")
    ] = "address",
    run: GivenRun,
) -> None:
    """Put grains into one .mg file; the same grain twice is written once."""
    from memoranda.bindings.files import mg

    with progress("packing") as done:
        written = mg.pack(target, mg.all_in(_required(sources)), order=order, compress=compress, progress=done)
    checksum = written.checksum.hex()
    counts = {"packed": written.count, "duplicates": written.duplicates, "bytes": written.size_bytes}
    if target == STANDARD_STREAM:
        note(f"{counted(written.count, 'grain')} packed")
        return
    twice = f", {counted(written.duplicates, 'duplicate')} left out" if written.duplicates else ""
    run.answer(
        {**counts, "checksum": checksum, "target": target},
        lambda: line(f"{counted(written.count, 'grain')} packed into {target}{twice}"),
    )


def unpack(
    source: Annotated[str, Parameter(name="FILE", help="The .mg file; - for standard input.")],
    folder: Annotated[Path, Parameter(name="DIR", help="Where the files go.")],
    /,
    *,
    shape: Annotated[
        Literal["grain", "json", "both"],
        Parameter(name="--as", help="One file per grain, grains.ndjson with the fields, or both; grain unless said."),
    ] = "grain",
    run: GivenRun,
) -> None:
    """Take an .mg file apart: ADDRESS.grain, or ADDRESS.cose if signed, for each grain."""
    from memoranda.bindings.files import mg

    with progress("unpacking") as done:
        count = mg.unpack(source, folder, shape, done)
    run.answer({"unpacked": count, "folder": str(folder)}, lambda: line(f"{counted(count, 'grain')} in {folder}"))


def sign(
    source: Annotated[str, Parameter(name="FILE", help="Fields as JSON, or an unsigned grain; - for standard input.")],
    /,
    *,
    out: Annotated[str | None, Parameter(help="Where the envelope goes; FILE.cose unless said, - for output.")] = None,
    run: GivenRun,
) -> None:
    """Sign a grain with the operator's key and write it in its envelope."""
    from memoranda.bindings.files import mg
    from memoranda.opening import signing_key, system_clock
    from memoranda.standards.oms import signature

    given = mg.read_one(source)
    with mg.placed(source):
        grain, before = _signable(given)
    key = signing_key(run.settings())
    envelope = signature.sign(grain, key, issued_at=system_clock() // 1000)
    target = out or ("-" if source == STANDARD_STREAM else str(Path(source).with_suffix(mg.ENVELOPE_ENDING)))
    _write_bytes(target, envelope)
    if before is not None:
        note(f"the signed bit is part of the address: {before} is {grain.address} now")
    document = {"address": grain.address, "signer": key.did, "target": target, "unsigned_address": before}
    if target != "-":
        run.answer(document, lambda: line(f"{grain.address} signed by {key.did}, in {target}"))


def _signable(given: bytes | dict[str, Any]) -> tuple[Grain, str | None]:
    """The grain with its signed bit, and its address without if it had one."""
    from memoranda.standards.oms import grains, signature
    from memoranda.standards.oms.registry import is_domain_byte

    if isinstance(given, dict):
        return grains.encode(given, signed=True), None
    found = signature.open_delivery(given)
    if isinstance(found, signature.SignedGrain):
        raise InvalidInput(f"already signed by {found.signer}")
    again = grains.encode(
        found.fields,
        cbor=found.header.is_cbor,
        signed=True,
        sensitivity=found.header.sensitivity,
        type_byte=found.type_byte if is_domain_byte(found.type_byte) else None,
        default_namespace=None,
    )
    return again, found.address


def disclose(
    source: Annotated[str, Parameter(name="ADDRESS|FILE", help="A grain of the store, or a file with one.")],
    /,
    *,
    elide: Annotated[tuple[str, ...], Parameter(help="A field to leave out; can be repeated.")],
    out: Annotated[str, Parameter(help="Where the view goes; - for standard output.")],
    salted: Annotated[
        bool, Parameter(help="Hash with salts, so that nobody can guess; they go to OUT.salts, for you alone.")
    ] = False,
    run: GivenRun,
) -> None:
    """Write a view of a grain without some of its fields, each provable later."""
    from memoranda.standards.oms import disclosure

    original = _grain_of(source, run)
    salts = None
    if salted:
        if out == STANDARD_STREAM:
            raise InvalidInput("--salted: give --out a file; the salts go to a file beside it")
        salts = {name: secrets.token_bytes(disclosure.SALT_BYTES) for name in (*elide, disclosure.ORIGINAL)}
    view = disclosure.disclose(original, set(elide), salts=salts)
    if salts is not None:
        _write_salts(Path(f"{out}.salts"), salts)
    _write_bytes(out, view.blob)
    if out == STANDARD_STREAM:
        return
    document = {"address": view.address, "original": original.address, "elided": sorted(elide), "target": out}
    beside = f"; its salts are in {out}.salts: keep them apart from it" if salts is not None else ""
    run.answer(
        {**document, **({} if salts is None else {"salts": f"{out}.salts"})},
        lambda: line(f"{view.address} in {out}{beside}"),
    )


def _grain_of(source: str, run: GivenRun) -> Grain:
    from memoranda.bindings.files import mg
    from memoranda.standards.oms import grains, signature

    if _ADDRESS.fullmatch(source) and not Path(source).exists():
        with run.open() as memoranda:
            return memoranda.grains.release(source).grain
    given = mg.read_one(source)
    with mg.placed(source):
        if isinstance(given, dict):
            return grains.encode(given)
        found = signature.open_delivery(given)
    return found.grain if isinstance(found, signature.SignedGrain) else found


def _write_salts(path: Path, salts: dict[str, bytes]) -> None:
    from memoranda.bindings.files.folder import create
    from memoranda.encoding.bases import base64_encode
    from memoranda.encoding.json_text import dump_pretty

    text = dump_pretty({name: base64_encode(salt) for name, salt in salts.items()}) + "\n"
    try:
        created = create(path)
    except FileExistsError:
        raise InvalidInput(f"{path}: there are salts already; without them a view proves nothing") from None
    with created as file:
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def _write_bytes(target: str, data: bytes) -> None:
    from memoranda.bindings.files.folder import write_whole

    if target != "-":
        write_whole(Path(target), data)
        return
    if sys.stdout.isatty():
        raise InvalidInput("grains are bytes, not text for a terminal; give --out a file")
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _required(sources: tuple[str, ...]) -> tuple[str, ...]:
    if not sources and sys.stdin.isatty():
        raise InvalidInput("no file given: name files, or pipe one in")
    return sources or ("-",)
