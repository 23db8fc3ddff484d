"""oms put and supersede: add a grain from a file to the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from memoranda.bindings.files.mg import naming_source, read_grain
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import line, note

if TYPE_CHECKING:
    from memoranda.app import Memoranda
    from memoranda.service.oms.grains import GrainResult

Source = Annotated[
    str,
    Parameter(name="FILE", help="Fields as JSON, a grain, or an envelope; - for standard input."),
]


def put(source: Source, /, *, run: GivenRun) -> None:
    """Add a grain and print its address. A missing creation time is set to now."""
    with run.open() as memoranda:
        grain = _read_grain(memoranda, source)
        with naming_source(source):
            stored = memoranda.grains.put(grain)
    _answer(stored, run)


def supersede(
    address: Annotated[str, Parameter(name="ADDRESS", help="The grain to replace.")],
    source: Source,
    /,
    *,
    justification: Annotated[
        str | None, Parameter(help="The reason; written into the new grain.")
    ] = None,
    run: GivenRun,
) -> None:
    """Replace a grain with another, if its policy allows that; the old grain stays in the history."""
    with run.open() as memoranda:
        grain = _read_grain(memoranda, source)
        stored = memoranda.grains.supersede(address, grain, justification=justification)
    _answer(stored, run)


def _read_grain(memoranda: Memoranda, source: str) -> bytes | dict[str, Any]:
    """Return the grain or the envelope in a file, or its fields with the defaults of the store."""
    content = read_grain(source)
    return content if isinstance(content, bytes) else memoranda.grains.with_defaults(content)


def _answer(stored: GrainResult, run: GivenRun) -> None:
    document = {
        "address": stored.address,
        "result": stored.result,
        "warnings": list(stored.warnings),
        "needs_review": stored.needs_review,
    }
    if not run.json:
        for warning in stored.warnings:
            note(warning)
    run.answer(document, lambda: line(f"{stored.address} {stored.result}"))
