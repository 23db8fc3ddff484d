"""Grains in files: `.mg` containers, single grains (bare or in their envelope), and grains written as JSON fields.

What a file is, its first bytes say, not its name:

    4d 47       an .mg container
    01          a grain
    d2, 84      a grain in its COSE_Sign1 envelope
    { [         fields as JSON: one object, an array, or one object per line

Scratch files lie beside what is written, so that they need no room elsewhere, and have no name.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Final, Literal

from memoranda.bindings.files import folder, formats
from memoranda.bindings.files.folder import (
    STANDARD_STREAM,
    atomic_writer,
    create,
    display_name,
    open_path,
)
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError, NotFound, TooLarge
from memoranda.service.exchange.importing import Item
from memoranda.service.oms.views import jsonable
from memoranda.standards.oms import container, container_reader, grains, header, signature
from memoranda.standards.oms.container import ContainerSummary, Order
from memoranda.standards.oms.container_reader import MAX_DECOMPRESSED_BYTES, ContainerReader
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.manifest import DEFAULT, IndexState
from memoranda.standards.oms.profile import EXTENDED
from memoranda.standards.oms.requests import RenderedGrain, parse_with_grain
from memoranda.standards.oms.scan import MAX_ITEM_BYTES

GRAIN_ENDING: Final = ".grain"
ENVELOPE_ENDING: Final = ".cose"
FIELDS_NAME: Final = "grains.ndjson"

Kind = Literal["container", "grain", "envelope", "fields"]
Shape = Literal["grain", "json", "both"]
# A grain as bytes, or the fields of one that is still to be made.
GrainInput = bytes | dict[str, Any]
Progress = Callable[[int], None]

_CONTAINER_START: Final = b"MG"


# --- opening -----------------------------------------------------------------------------------------


@contextmanager
def open_grains(source: str) -> Iterator[IO[bytes]]:
    """A file that can be read anywhere; what comes through a pipe is collected first."""
    with folder.open_source(source) as found:
        if found.seekable() and source != STANDARD_STREAM:
            yield found
        else:
            with _spool_stream(found) as file:
                yield file


@contextmanager
def _spool_stream(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as file:
        while chunk := stream.read(container.CHUNK_BYTES):
            file.write(chunk)
            if file.tell() > container.MAX_FILE_BYTES:
                raise TooLarge(
                    f"more than {container.MAX_FILE_BYTES} bytes, which no file of grains has"
                )
        file.seek(0)
        yield file


@contextmanager
def naming_source(source: str) -> Iterator[None]:
    """Errors raised within name the file."""
    try:
        yield
    except MemorandaError as error:
        error.message = f"{display_name(source)}: {error.message}"
        error.args = (error.message,)
        raise


def detect_kind(file: IO[bytes]) -> Kind:
    """What a file holds, by its first bytes. Raises InvalidInput."""
    file.seek(0)
    start = file.read(64)
    file.seek(0)
    if start.startswith(_CONTAINER_START):
        return "container"
    if start.startswith(bytes((header.VERSION,))):
        return "grain"
    if signature.is_envelope(start):
        return "envelope"
    if start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return "fields"
    raise InvalidInput(
        "neither an .mg file, nor a grain, nor JSON" if start else "the file is empty"
    )


def is_grain_file(source: str) -> bool:
    """Whether a named file holds grains as bytes; no text begins like that."""
    try:
        with open_path(Path(source)) as file:
            start = file.read(2)
    except OSError:
        return False
    return start == _CONTAINER_START or start[:1] in (b"\x01", b"\xd2", b"\x84")


def count(source: str) -> int | None:
    """How many grains a container says that it holds; None of everything else."""
    try:
        with open_path(Path(source)) as file:
            return container.FileHeader.parse(file.read(container.HEADER_BYTES)).count
    except (OSError, MemorandaError):
        return None


@contextmanager
def open_container(file: IO[bytes], beside: Path | None = None) -> Iterator[ContainerReader]:
    """The container in a file; a compressed one unfolds on disk."""
    with scratch_file(beside) as spool:
        yield ContainerReader(file, spool=spool)


@contextmanager
def scratch_file(beside: Path | None = None) -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile(dir=beside) as spool:
        yield spool


# --- reading -----------------------------------------------------------------------------------------


def read_grain(source: str) -> GrainInput:
    """The one grain of a file, as its bytes or as the fields it is to be made of."""
    with naming_source(source), open_grains(source) as file:
        kind = detect_kind(file)
        if kind == "container":
            raise InvalidInput("an .mg file holds many grains; import it, or unpack it first")
        if kind != "fields":
            return read_all(file)
        found = list(islice(read_fields(file), 2))
        if len(found) != 1:
            raise InvalidInput(
                "it holds more than one grain; give them one at a time, or pack them"
            )
        return found[0]


def read_all(file: IO[bytes]) -> bytes:
    data = file.read(MAX_ITEM_BYTES + 1)
    if len(data) > MAX_ITEM_BYTES:
        raise TooLarge(f"over the limit of {MAX_ITEM_BYTES} bytes for a grain")
    return data


def read_fields(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The fields of each grain that is written as JSON, bare or as `oms get --json` shows it."""
    for number, (line, found) in enumerate(formats.read(file, None), start=1):
        try:
            if isinstance(found, MemorandaError):
                raise found
            yield parse_with_grain(found, RenderedGrain).grain
        except MemorandaError as error:
            error.message += (
                f" (line {line})" if line > 1 else f" (grain {number})" if number > 1 else ""
            )
            raise


def read_grains(source: str) -> Iterator[tuple[bytes | Grain, IndexState]]:
    """Every grain of a file of any kind, with the index state that a container knows."""
    with open_grains(source) as file:
        kind = detect_kind(file)
        if kind == "container":
            with open_container(file) as reader:
                yield from _with_states(reader)
        elif kind == "fields":
            for number, fields in enumerate(read_fields(file), start=1):
                yield _encode_fields(fields, number), DEFAULT
        else:
            yield read_all(file), DEFAULT


def _encode_fields(fields: dict[str, Any], number: int) -> Grain:
    try:
        return grains.encode(fields)
    except MemorandaError as error:
        error.message += f" (grain {number})" if number > 1 else ""
        raise


def items(source: str) -> Iterator[Item]:
    """The grains of a file as items. Fields become bytes here; a grain that is bytes already is not read twice."""
    name = display_name(source)
    try:
        for number, (found, state) in enumerate(read_grains(source), start=1):
            delivery = found if isinstance(found, bytes) else found.blob
            yield Item(
                form="oms",
                value=delivery,
                where=f"{name}: grain {number}",
                number=number,
                index=state,
            )
    except MemorandaError as error:
        yield Item(form="oms", where=name, error=error)


def read_all_grains(sources: Iterable[str]) -> Iterator[tuple[bytes | Grain, IndexState]]:
    """Every grain of several files; errors name the file. Signatures are carried along, not verified."""
    for source in sources:
        with naming_source(source):
            for found, state in read_grains(source):
                if isinstance(found, bytes):
                    grain = grains.decode(signature.blob_of(found))
                    yield (
                        (
                            found
                            if signature.is_envelope(found) or grain.header.is_signed
                            else grain
                        ),
                        state,
                    )
                else:
                    yield found, state


def _with_states(reader: ContainerReader) -> Iterator[tuple[bytes, IndexState]]:
    states = dict(reader.states())
    for delivery in reader.deliveries():
        state = (
            states.get(sha256(signature.blob_of(delivery)).hexdigest(), DEFAULT)
            if states
            else DEFAULT
        )
        yield delivery, state


# --- writing -----------------------------------------------------------------------------------------


def pack(
    target: str,
    items: Iterable[tuple[bytes | Grain, IndexState]],
    *,
    order: Order,
    compress: bool,
    progress: Progress,
    known: Iterable[tuple[str, IndexState]] = (),
) -> ContainerSummary:
    """Write a container that appears whole or not at all, or goes to standard output.

    `known` is asked when all grains are there, for what turned out about some of them by then.
    """
    beside = None if target == STANDARD_STREAM else Path(target).absolute().parent
    if beside is not None and not beside.is_dir():
        raise NotFound(f"{target}: there is no such folder to write to")
    with scratch_file(beside) as spool:
        # What we could not unfold ourselves is not written.
        limit = MAX_DECOMPRESSED_BYTES if compress else container.MAX_FILE_BYTES
        if target == STANDARD_STREAM:
            writer = container.ContainerWriter(
                sys.stdout.buffer, spool, order=order, compress=compress, max_file_bytes=limit
            )
            written = _fill(writer, items, known, progress)
            sys.stdout.buffer.flush()
            return written
        with atomic_writer(Path(target)) as file:
            writer = container.ContainerWriter(
                file, spool, order=order, compress=compress, max_file_bytes=limit
            )
            return _fill(writer, items, known, progress)


def _fill(
    writer: container.ContainerWriter,
    items: Iterable[tuple[bytes | Grain, IndexState]],
    known: Iterable[tuple[str, IndexState]],
    progress: Progress,
) -> ContainerSummary:
    for count, (grain, state) in enumerate(items, start=1):
        writer.append(grain, state)
        progress(count)
    for address, state in known:
        writer.add_state(address, state)
    return writer.finish()


def filter_packable(
    items: Iterable[tuple[bytes, IndexState]], refuse: Callable[[str, MemorandaError], None]
) -> Iterator[tuple[bytes, IndexState]]:
    """What a store gives away, without what is too large for a container: `refuse` is told of that."""
    for delivery, state in items:
        if len(delivery) > EXTENDED.max_bytes and not signature.is_envelope(delivery):
            refuse(
                grains.address_of(delivery),
                TooLarge("too large for an .mg file and left out; export records too"),
            )
            continue
        yield delivery, state


def unpack(source: str, folder: Path, shape: Shape, progress: Progress) -> int:
    """One file for each grain, named by its address, or one file with the fields of all, or both."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{folder}: {error.strerror}") from None
    count = 0
    with naming_source(source), open_grains(source) as file:
        if detect_kind(file) != "container":
            raise InvalidInput("not an .mg file")
        with open_container(file, folder) as reader:
            reader.check_footer()
            with (
                atomic_writer(folder / FIELDS_NAME) if shape != "grain" else nullcontext() as listed
            ):
                for count, delivery in enumerate(reader.deliveries(), start=1):
                    grain = grains.decode(signature.blob_of(delivery))
                    if shape != "json":
                        ending = (
                            ENVELOPE_ENDING if signature.is_envelope(delivery) else GRAIN_ENDING
                        )
                        _write_unsynced(folder / (grain.address + ending), delivery)
                    if listed is not None:
                        listed.write(json_text.dump(jsonable(grain.fields)) + b"\n")
                    progress(count)
    return count


def _write_unsynced(path: Path, data: bytes) -> None:
    """A whole file or none, not waiting for the disk: a grain that a power cut damages says so by its address."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with create(draft) as file:
            file.write(data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def recover(source: str, target: str, progress: Progress) -> ContainerSummary:
    """Write every whole grain of a damaged container to a new one, in the order in which they lay."""
    with naming_source(source), open_grains(source) as file:
        if detect_kind(file) != "container":
            raise InvalidInput("not an .mg file; there is nothing to recover")
        if Path(target).exists() and Path(target).samefile(source):
            raise InvalidInput("recover to another file; the damaged one may still be needed")
        found = container_reader.recover(file)
        first = next(found, None)
        if first is None:
            raise InvalidInput("no whole grain can be recovered")
        saved = ((delivery, DEFAULT) for delivery in chain((first,), found))
        return pack(target, saved, order="given", compress=False, progress=progress)
