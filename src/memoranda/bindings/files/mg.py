"""Grains in files: `.mg` containers, single grains (bare or in their envelope), and grains written as JSON fields.

The first bytes of a file tell its kind, not its name:

    4d 47       an .mg container
    01          a grain
    d2, 84      a grain in its COSE_Sign1 envelope
    { [         fields as JSON: one object, an array, or one object per line

Scratch files have no name, and are in the folder of the target, which has room for them. A grain is a `Grain`, or the
bytes in which it travels (its delivery): bare, or in an envelope with its signature.
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
from typing import IO, Final, Literal

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
from memoranda.service.oms.views import to_json_value
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
# A grain as bytes, or the fields from which one is to be built.
GrainInput = bytes | dict[str, object]
Progress = Callable[[int], None]

_CONTAINER_START: Final = b"MG"


# --- opening -----------------------------------------------------------------------------------------


@contextmanager
def open_grains(source: str) -> Iterator[IO[bytes]]:
    """Open a source for reading at any position; the bytes of a pipe are copied to a file first."""
    with folder.open_source(source) as stream:
        if stream.seekable() and source != STANDARD_STREAM:
            yield stream
        else:
            with _spool_stream(stream) as file:
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
    """Put the name of a file before the message of errors raised in this context."""
    try:
        yield
    except MemorandaError as error:
        error.message = f"{display_name(source)}: {error.message}"
        error.args = (error.message,)
        raise


def detect_kind(file: IO[bytes]) -> Kind:
    """Return the kind of a file, by its first bytes. Raises InvalidInput."""
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
    """Return True if a file holds grains as bytes; no text begins with such bytes."""
    try:
        with open_path(Path(source)) as file:
            start = file.read(2)
    except OSError:
        return False
    return start == _CONTAINER_START or start[:1] in (b"\x01", b"\xd2", b"\x84")


def count(source: str) -> int | None:
    """Return the number of grains in the header of a container; None for any other file."""
    try:
        with open_path(Path(source)) as file:
            return container.FileHeader.parse(file.read(container.HEADER_BYTES)).count
    except (OSError, MemorandaError):
        return None


@contextmanager
def open_container(file: IO[bytes], folder: Path | None = None) -> Iterator[ContainerReader]:
    """Open the container in a file; a compressed one is decompressed into a scratch file in the folder."""
    with scratch_file(folder) as spool:
        yield ContainerReader(file, spool=spool)


@contextmanager
def scratch_file(folder: Path | None = None) -> Iterator[IO[bytes]]:
    """Open a temporary file without a name in a folder; by default in the system's folder for such files."""
    with tempfile.TemporaryFile(dir=folder) as spool:
        yield spool


# --- reading -----------------------------------------------------------------------------------------


def read_grain(source: str) -> GrainInput:
    """Return the only grain of a file, as its bytes or as the fields to build it from.

    Raises InvalidInput for a container and for a file with more than one grain.
    """
    with naming_source(source), open_grains(source) as file:
        kind = detect_kind(file)
        if kind == "container":
            raise InvalidInput("an .mg file holds many grains; import it, or unpack it first")
        if kind != "fields":
            return read_all(file)
        several = list(islice(read_fields(file), 2))
        if len(several) != 1:
            raise InvalidInput(
                "it holds more than one grain; give them one at a time, or pack them"
            )
        return several[0]


def read_all(file: IO[bytes]) -> bytes:
    """Return the bytes of a file with one grain. Raises TooLarge."""
    data = file.read(MAX_ITEM_BYTES + 1)
    if len(data) > MAX_ITEM_BYTES:
        raise TooLarge(f"over the limit of {MAX_ITEM_BYTES} bytes for a grain")
    return data


def read_fields(file: IO[bytes]) -> Iterator[dict[str, object]]:
    """Yield the fields of each grain that is written as JSON, bare or as `oms get --json` shows it."""
    for number, (line, document) in enumerate(formats.read_records(file, None), start=1):
        try:
            if isinstance(document, MemorandaError):
                raise document
            yield parse_with_grain(document, RenderedGrain).grain
        except MemorandaError as error:
            if line > 1:
                error.message += f" (line {line})"
            elif number > 1:
                error.message += f" (grain {number})"
            raise


def read_grains(source: str) -> Iterator[tuple[bytes | Grain, IndexState]]:
    """Yield every grain of a file of any kind, with its index state if it is from a container."""
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


def _encode_fields(fields: dict[str, object], number: int) -> Grain:
    """Build a grain from its fields; an error names the number of the grain."""
    try:
        return grains.encode(fields)
    except MemorandaError as error:
        error.message += f" (grain {number})" if number > 1 else ""
        raise


def items(source: str) -> Iterator[Item]:
    """Yield the grains of a file as items of an import; fields become bytes here."""
    name = display_name(source)
    try:
        for number, (grain, state) in enumerate(read_grains(source), start=1):
            delivery = grain if isinstance(grain, bytes) else grain.blob
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
    """Yield every grain of several files; errors name the file. Signatures are passed on, not verified."""
    for source in sources:
        with naming_source(source):
            for delivery, state in read_grains(source):
                if isinstance(delivery, bytes):
                    grain = grains.decode(signature.blob_of(delivery))
                    is_signed = signature.is_envelope(delivery) or grain.header.is_signed
                    yield (delivery if is_signed else grain), state
                else:
                    yield delivery, state


def _with_states(reader: ContainerReader) -> Iterator[tuple[bytes, IndexState]]:
    """Yield the grains of a container with their index states."""
    states = dict(reader.states())
    for delivery in reader.deliveries():
        state = DEFAULT
        if states:
            state = states.get(sha256(signature.blob_of(delivery)).hexdigest(), DEFAULT)
        yield delivery, state


# --- writing -----------------------------------------------------------------------------------------


def pack(
    target: str,
    items: Iterable[tuple[bytes | Grain, IndexState]],
    *,
    order: Order,
    compress: bool,
    progress: Progress,
    later_states: Iterable[tuple[str, IndexState]] = (),
) -> ContainerSummary:
    """Write a container to a file that appears complete or not at all, or to standard output.

    `later_states` is read after all grains: index states that only became known while they were read.
    """
    scratch_folder = None if target == STANDARD_STREAM else Path(target).absolute().parent
    if scratch_folder is not None and not scratch_folder.is_dir():
        raise NotFound(f"{target}: there is no such folder to write to")
    with scratch_file(scratch_folder) as spool:
        # Larger containers could not be read again by us.
        limit = MAX_DECOMPRESSED_BYTES if compress else container.MAX_FILE_BYTES
        if target == STANDARD_STREAM:
            writer = container.ContainerWriter(
                sys.stdout.buffer, spool, order=order, compress=compress, max_file_bytes=limit
            )
            summary = _fill(writer, items, later_states, progress)
            sys.stdout.buffer.flush()
            return summary
        with atomic_writer(Path(target)) as file:
            writer = container.ContainerWriter(
                file, spool, order=order, compress=compress, max_file_bytes=limit
            )
            return _fill(writer, items, later_states, progress)


def _fill(
    writer: container.ContainerWriter,
    items: Iterable[tuple[bytes | Grain, IndexState]],
    later_states: Iterable[tuple[str, IndexState]],
    progress: Progress,
) -> ContainerSummary:
    """Write grains and states, and return the summary of the container."""
    for count, (grain, state) in enumerate(items, start=1):
        writer.append(grain, state)
        progress(count)
    for address, state in later_states:
        writer.add_state(address, state)
    return writer.finish()


def filter_packable(
    items: Iterable[tuple[bytes, IndexState]], refuse: Callable[[str, MemorandaError], None]
) -> Iterator[tuple[bytes, IndexState]]:
    """Yield the grains of an export that a container can hold; `refuse` gets the address and error of the others."""
    for delivery, state in items:
        if len(delivery) > EXTENDED.max_bytes and not signature.is_envelope(delivery):
            refuse(
                grains.address_of(delivery),
                TooLarge("too large for an .mg file and left out; export records too"),
            )
            continue
        yield delivery, state


def unpack(source: str, folder: Path, shape: Shape, progress: Progress) -> int:
    """Write one file for each grain, named by its address, or one file with the fields of all, or both.

    Return the number of grains.
    """
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
                atomic_writer(folder / FIELDS_NAME)
                if shape != "grain"
                else nullcontext() as fields_file
            ):
                for count, delivery in enumerate(reader.deliveries(), start=1):
                    grain = grains.decode(signature.blob_of(delivery))
                    if shape != "json":
                        ending = (
                            ENVELOPE_ENDING if signature.is_envelope(delivery) else GRAIN_ENDING
                        )
                        _write_unsynced(folder / (grain.address + ending), delivery)
                    if fields_file is not None:
                        fields_file.write(json_text.dump(to_json_value(grain.fields)) + b"\n")
                    progress(count)
    return count


def _write_unsynced(path: Path, data: bytes) -> None:
    """Write a file completely or not at all, without a sync to disk: the address reveals damage by a power cut."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with create(draft) as file:
            file.write(data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def recover(source: str, target: str, progress: Progress) -> ContainerSummary:
    """Write every undamaged grain of a damaged container to a new one, in the same order.

    Raises InvalidInput for a file that is no container, for the damaged file as its own target, and if no grain is
    undamaged.
    """
    with naming_source(source), open_grains(source) as file:
        if detect_kind(file) != "container":
            raise InvalidInput("not an .mg file; there is nothing to recover")
        if Path(target).exists() and Path(target).samefile(source):
            raise InvalidInput("recover to another file; the damaged one may still be needed")
        recovered = container_reader.recover(file)
        first = next(recovered, None)
        if first is None:
            raise InvalidInput("no undamaged grain was found")
        deliveries = ((delivery, DEFAULT) for delivery in chain((first,), recovered))
        return pack(target, deliveries, order="given", compress=False, progress=progress)
