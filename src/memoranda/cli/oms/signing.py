"""oms sign and disclose: write a signed grain, or a view of one, to a file. Only `disclose ADDRESS` opens the store.

A signature covers the bytes of a grain with its signed bit set, so signing changes the address. A view made by
`disclose` leaves out fields, and contains their salted hashes instead: someone who gets the salts and the values later
can check them against the signature. Therefore the salts go into a private file of their own, which is never
overwritten.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from memoranda.bindings.files import mg
from memoranda.bindings.files.folder import STANDARD_STREAM, create, replace_file
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import line, note
from memoranda.encoding.bases import base64_encode
from memoranda.encoding.json_text import dump_pretty
from memoranda.errors import InvalidInput
from memoranda.opening import signing_key, system_clock
from memoranda.standards.oms import disclosure, grains, signature
from memoranda.standards.oms.registry import is_domain_byte

if TYPE_CHECKING:
    from memoranda.standards.oms.grains import Grain

_ADDRESS = re.compile(r"[0-9a-f]{64}", re.ASCII)


def sign(
    source: Annotated[
        str,
        Parameter(name="FILE", help="Fields as JSON, or an unsigned grain; - for standard input."),
    ],
    /,
    *,
    out: Annotated[
        str | None,
        Parameter(help="The file for the envelope (default: FILE.cose); - for standard output."),
    ] = None,
    run: GivenRun,
) -> None:
    """Sign a grain with the operator's key and write it as an envelope."""
    content = mg.read_grain(source)
    with mg.naming_source(source):
        grain, unsigned_address = _mark_signed(content)
    key = signing_key(run.settings())
    envelope = signature.sign(grain, key, issued_at=system_clock() // 1000)
    target = out or (
        "-" if source == STANDARD_STREAM else str(Path(source).with_suffix(mg.ENVELOPE_ENDING))
    )
    _write_bytes(target, envelope)
    if unsigned_address is not None:
        note(f"signing changes the address: {unsigned_address} is now {grain.address}")
    document = {
        "address": grain.address,
        "signer": key.did,
        "target": target,
        "unsigned_address": unsigned_address,
    }
    if target != "-":
        run.answer(document, lambda: line(f"{grain.address} signed by {key.did}, in {target}"))


def _mark_signed(content: bytes | dict[str, object]) -> tuple[Grain, str | None]:
    """Return the grain with its signed bit set, and the address of the unsigned grain if the file held one."""
    if isinstance(content, dict):
        return grains.encode(content, signed=True), None
    unsigned = signature.open_delivery(content)
    if isinstance(unsigned, signature.SignedGrain):
        raise InvalidInput(f"already signed by {unsigned.signer}")
    grain = grains.encode(
        unsigned.fields,
        cbor=unsigned.header.is_cbor,
        signed=True,
        sensitivity=unsigned.header.sensitivity,
        type_byte=unsigned.type_byte if is_domain_byte(unsigned.type_byte) else None,
        default_namespace=None,
    )
    return grain, unsigned.address


def disclose(
    source: Annotated[
        str,
        Parameter(
            name="ADDRESS|FILE", help="The address of a grain in the store, or a file with a grain."
        ),
    ],
    /,
    *,
    elide: Annotated[tuple[str, ...], Parameter(help="A field to leave out; can be repeated.")],
    out: Annotated[str, Parameter(help="The file for the view; - for standard output.")],
    salted: Annotated[
        bool,
        Parameter(
            help="Hash with salts, so that nobody can guess the fields; OUT.salts, for you alone, holds them."
        ),
    ] = False,
    run: GivenRun,
) -> None:
    """Write a view of a grain without some of its fields, and with a hash of each to prove it later."""
    original = _read_grain(source, run)
    salts = None
    if salted:
        if out == STANDARD_STREAM:
            raise InvalidInput(
                "--salted: give --out a file; the salts are written to a second file, OUT.salts"
            )
        salts = {
            name: secrets.token_bytes(disclosure.SALT_BYTES)
            for name in (*elide, disclosure.ORIGINAL)
        }
    view = disclosure.disclose(original, set(elide), salts=salts)
    if salts is not None:
        _write_salts(Path(f"{out}.salts"), salts)
    _write_bytes(out, view.blob)
    if out == STANDARD_STREAM:
        return
    document = {
        "address": view.address,
        "original": original.address,
        "elided": sorted(elide),
        "target": out,
    }
    salts_note = (
        f"; its salts are in {out}.salts: keep them apart from it" if salts is not None else ""
    )
    run.answer(
        {**document, **({} if salts is None else {"salts": f"{out}.salts"})},
        lambda: line(f"{view.address} in {out}{salts_note}"),
    )


def _read_grain(source: str, run: GivenRun) -> Grain:
    """Return the grain in a file, or the one in the store if the source is an address."""
    if _ADDRESS.fullmatch(source) and not Path(source).exists():
        with run.open() as memoranda:
            return memoranda.grains.release(source).grain
    content = mg.read_grain(source)
    with mg.naming_source(source):
        if isinstance(content, dict):
            return grains.encode(content)
        grain = signature.open_delivery(content)
    return grain.grain if isinstance(grain, signature.SignedGrain) else grain


def _write_salts(path: Path, salts: dict[str, bytes]) -> None:
    """Write the salts to a new private file. Raises InvalidInput if the file exists."""
    text = dump_pretty({name: base64_encode(salt) for name, salt in salts.items()}) + "\n"
    try:
        new_file = create(path)
    except FileExistsError:
        raise InvalidInput(
            f"{path}: the file exists; its salts are needed to prove an earlier view. Choose another --out"
        ) from None
    with new_file as file:
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def _write_bytes(target: str, data: bytes) -> None:
    """Write bytes to a file or to standard output. Raises InvalidInput for a terminal."""
    if target != "-":
        replace_file(Path(target), data)
        return
    if sys.stdout.isatty():
        raise InvalidInput("grains are bytes, not text for a terminal; give --out a file")
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
