"""tenant: list the owners of a store, limit, export or delete one. For the operator.

The work is in `service/core/tenants.py`, which `bindings/http/admin.py` calls as well; here are the questions and the
printing. An export is one zip file with a file of JSON lines for each part. Deleting asks for confirmation, because it
makes no backup; without a terminal it needs `--yes`.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from memoranda.bindings.files.folder import atomic_writer
from memoranda.cli.run import GivenRun, Parameter, without_none
from memoranda.cli.show import count_phrase, is_confirmed, line, note, progress, table
from memoranda.encoding.json_text import dump
from memoranda.errors import InvalidInput
from memoranda.service.core import tenants
from memoranda.service.core.limits import QuotaGrant

if TYPE_CHECKING:
    from memoranda.app import Memoranda
    from memoranda.cli.show import Bar


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaOptions:
    """The limits of one tenant in place of the server's."""

    memories: Annotated[int | None, Parameter(help="Maximum memories; 0: no limit.", minimum=0)] = (
        None
    )
    bytes: Annotated[
        int | None, Parameter(help="Maximum bytes of documents; 0: no limit.", minimum=0)
    ] = None
    writes_per_minute: Annotated[
        int | None,
        Parameter(help="Memories that may be written per minute; 0: no limit.", minimum=0),
    ] = None
    runs_per_minute: Annotated[
        int | None, Parameter(help="Runs of openwop per minute; 0: no limit.", minimum=0)
    ] = None
    schedules: Annotated[int | None, Parameter(help="Schedules; 0: no limit.", minimum=0)] = None


NO_OPTIONS = QuotaOptions()


def list_tenants(*, run: GivenRun) -> None:
    """List all owners of the store with the amounts that they store, and their quotas."""
    with run.open() as memoranda:
        service = memoranda.service
        summaries = tenants.list_tenants(service.context, memoranda.access, service.gate)
    documents = [summary.document() for summary in summaries]
    columns = ("owner", "memories", "versions", "bytes", "keys", "quota", "fingerprint")
    rows = [
        (
            *(document[name] for name in columns[:5]),
            ", ".join(f"{name} {value}" for name, value in document["quota"].items()),
            document["fingerprint"],
        )
        for document in documents
    ]
    run.answer(
        {"tenants": documents},
        lambda: table(columns, rows, when_empty="the store is empty", clipped=("owner", "quota")),
    )


def quota(
    owner: Annotated[str, Parameter(name="OWNER", help="The owner, as `tenant list` shows it.")],
    /,
    *,
    options: QuotaOptions = NO_OPTIONS,
    reset: Annotated[bool, Parameter(help="Apply the server's limits again.")] = False,
    run: GivenRun,
) -> None:
    """Show or change the limits of one owner, which apply in place of the server's."""
    changes = without_none(**asdict(options))
    with run.open() as memoranda:
        service, access = memoranda.service, memoranda.access
        summary = tenants.describe_tenant(service.context, access, service.gate, owner)
        grant = QuotaGrant() if reset else summary.grant
        if changes or reset:
            grant = msgspec.structs.replace(grant, **changes)
            tenants.set_quota(service.context, access, owner, grant)
    limits = msgspec.structs.asdict(grant)
    rows = [(name, "the server's" if value is None else value) for name, value in limits.items()]
    run.answer(
        {"owner": owner, "quota": msgspec.to_builtins(grant)},
        lambda: table(("limit", "value"), rows, when_empty=""),
    )


def export(
    owner: Annotated[str, Parameter(name="OWNER", help="The owner, as `tenant list` shows it.")],
    target: Annotated[Path, Parameter(name="FILE", help="The zip file to write.")],
    /,
    *,
    run: GivenRun,
) -> None:
    """Write everything that the store holds of one owner to a zip file: memories, audit log, runs, and settings.

    `memories.ndjson` in it can be imported; the other files are for people and programs.
    """
    with (
        run.open() as memoranda,
        progress("exporting", lambda: memoranda.service.count_versions(owner)) as bar,
        atomic_writer(target) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        counts = _write_parts(memoranda, owner, archive, bar)
    target.chmod(0o600)
    run.answer(
        {"owner": owner, "file": str(target), "counts": counts},
        lambda: line(
            f"{count_phrase(counts['documents'], 'document')} of {owner} exported to {target}"
        ),
    )


def _write_parts(
    memoranda: Memoranda, owner: str, archive: zipfile.ZipFile, bar: Bar
) -> dict[str, int]:
    """Write one file for each part of an export, and return the lines of each."""
    service, access = memoranda.service, memoranda.access
    summary = tenants.describe_tenant(service.context, access, service.gate, owner)
    keys = [
        {"id": key.key_id, "name": key.name, "scopes": key.scopes}
        for key in service.gate.keys_of(owner)
    ]
    archive.writestr("about.json", dump({**summary.document(), "api_keys": keys}) + b"\n")
    counts = {}
    for part in tenants.EXPORT_PARTS:
        lines = tenants.iterate_part(service.context, access, owner, part)
        counts[part] = _write_lines(
            archive, part, _report(lines, bar if part == "documents" else None)
        )
    records = service.export(service.gate.local(owner))
    counts["memories"] = _write_lines(archive, "memories", records)
    return counts


def _report(lines: Iterator[dict[str, Any]], bar: Bar | None) -> Iterator[dict[str, Any]]:
    """Yield the lines, and report their number."""
    for count, document in enumerate(lines, 1):
        if bar is not None:
            bar(count)
        yield document


def _write_lines(archive: zipfile.ZipFile, name: str, documents: Iterable[object]) -> int:
    count = 0
    with archive.open(f"{name}.ndjson", "w", force_zip64=True) as file:
        for document in documents:
            file.write(dump(document) + b"\n")
            count += 1
    return count


def delete(
    owner: Annotated[str, Parameter(name="OWNER", help="The owner, as `tenant list` shows it.")],
    /,
    *,
    reason: Annotated[str, Parameter(help="The reason, for the operator's audit log.")],
    yes: Annotated[bool, Parameter(help="Do not ask.")] = False,
    run: GivenRun,
) -> None:
    """Delete one owner for good: memories, history, audit log, runs, keys, programs and data keys.

    Backups made before still have them. Export the owner first if in doubt.
    """
    with run.open() as memoranda:
        service, access = memoranda.service, memoranda.access
        summary = tenants.describe_tenant(service.context, access, service.gate, owner)
        amount = count_phrase(summary.usage.memories, "memory", "memories")
        if not yes and not (
            sys.stdin.isatty() and is_confirmed(f"Delete {owner} with {amount} for good?")
        ):
            raise InvalidInput(f"{owner} was not deleted; to confirm, add --yes")
        usage = tenants.delete_tenant(service.context, access, service.gate, owner, reason=reason)
    document = {"owner": owner, "memories": usage.memories, "versions": usage.versions}
    run.answer(document, lambda: line(f"{owner} deleted, with {amount}"))
    if not run.json:
        note("backups made before still have this owner")
