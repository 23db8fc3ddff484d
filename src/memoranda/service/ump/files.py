"""Records in and out. The exchange knows every standard, so it is loaded when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from memoranda.service.core.access import Access
from memoranda.service.core.context import Context

if TYPE_CHECKING:
    from memoranda.service.exchange.import_records import UndoneImport
    from memoranda.service.exchange.importing import Item, Part
    from memoranda.service.exchange.report import Report
    from memoranda.standards.oams.namespace import Namespace
    from memoranda.standards.ump.record import Record


def export(
    context: Context,
    access: Access,
    *,
    owner: str | None = None,
    project: str | None = None,
    history: bool = True,
    names: Sequence[str] | None = None,
    carry: bool = True,
    report: Report | None = None,
) -> Iterator[Record]:
    """Every record that may leave, redacted, in the order written; or those of the given ids."""
    from memoranda.service.exchange.exporting import export_records

    return export_records(
        context,
        access,
        owner=owner,
        project=project,
        history=history,
        names=names,
        carry=carry,
        report=report,
    )


def export_page(
    context: Context,
    access: Access,
    *,
    owner: str | None = None,
    project: str | None = None,
    history: bool = True,
    carry: bool = True,
    after: int = 0,
) -> tuple[list[Record], int | None, Report]:
    """A page of what may leave, after which version the next begins, and what of it stays behind."""
    from memoranda.service.exchange import exporting

    return exporting.export_page(
        context, access, owner=owner, project=project, history=history, carry=carry, after=after
    )


def import_items(
    context: Context,
    access: Access,
    items: Iterable[Item],
    *,
    owner: str | None = None,
    adopt: bool = False,
    into: Namespace | None = None,
    restore: bool = False,
    is_dry: bool = False,
    progress: Callable[[int], None] | None = None,
    report: Report | None = None,
    label: str | None = None,
) -> Report:
    """Take memories in, in any form, reporting what was refused; with a `label`, what can be taken back."""
    from memoranda.service.exchange import importing

    return importing.import_items(
        context,
        access,
        items,
        owner=owner,
        adopt=adopt,
        into=into,
        restore=restore,
        is_dry=is_dry,
        progress=progress,
        report=report,
        label=label,
    )


def import_part(
    context: Context,
    access: Access,
    items: Iterable[Item],
    *,
    label: str | None,
    name: str | None = None,
    adopt: bool = False,
    into: Namespace | None = None,
    restore: bool = False,
    is_dry: bool = False,
) -> Part:
    """Take in a part of what is brought from elsewhere; `name` is what the part before it was put on record as."""
    from memoranda.service.exchange import importing

    return importing.import_part(
        context,
        access,
        items,
        label=label,
        name=name,
        adopt=adopt,
        into=into,
        restore=restore,
        is_dry=is_dry,
    )


def imports(context: Context, access: Access) -> list[dict[str, Any]]:
    """The imports that can be taken back, the last first."""
    from memoranda.service.exchange import import_records as on_record

    return on_record.imports(context, access)


def undo_import(
    context: Context,
    access: Access,
    name: str | None = None,
    *,
    progress: Callable[[int], None] | None = None,
) -> UndoneImport:
    """Take back an import, the last unless it is named."""
    from memoranda.service.exchange import import_records as on_record

    return on_record.undo_import(context, access, name, progress=progress)
