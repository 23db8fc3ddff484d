"""An import over a server: items are read here, and sent a part at a time.

Files stay on this machine; each memory in them travels in its own form. An item that cannot be read is refused here, at
its position in the report. A successor that comes with a later part is no reason for a warning; one that never comes
is. The server records all parts as one import, which can be undone as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, cast

from msgspec.structs import replace

from memoranda.encoding.bases import base64_encode
from memoranda.encoding.json_text import dump
from memoranda.errors import MemorandaError, Unsupported
from memoranda.library.remote_verbs import RemoteVerbs
from memoranda.service.exchange.adoption import NamespaceMapping
from memoranda.service.exchange.ancestry import missing_successor_warning
from memoranda.service.exchange.importing import ImportPart, Item
from memoranda.service.exchange.report import Refusal, Report
from memoranda.standards.oams.namespace import Namespace
from memoranda.standards.oms.manifest import DEFAULT
from memoranda.standards.oms.signature import SignedGrain, open_delivery
from memoranda.standards.ump.requests import MAX_IMPORT

# Bytes of JSON in one request: half of a server's limit, as items are measured without their frame.
_BATCH_BYTES: Final = 1_048_576


SendPart = Callable[..., ImportPart]


@dataclass(frozen=True, slots=True)
class Refused:
    """An item that cannot be read, or has no place to go."""

    item: Item
    error: MemorandaError


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """The options of an import, as in `Ump.import_items`."""

    owner: str | None = None
    adopt: bool = False
    into: Namespace | None = None
    restore: bool = False
    is_dry: bool = False
    label: str | None = None


class RemoteImport:
    """One import in progress."""

    def __init__(
        self,
        send: SendPart,
        own_tenant: Callable[[], str],
        options: ImportOptions,
        *,
        progress: Callable[[int], None] | None = None,
        report: Report | None = None,
    ) -> None:
        if options.owner is not None:
            raise Unsupported("owner: leave it out, since the key determines the owner")
        self._send_part = send
        self._options = options
        self._progress = progress
        self._report = report if report is not None else Report()
        self._renaming: NamespaceMapping | None = None
        if options.adopt or options.into is not None:
            self._renaming = NamespaceMapping(into=options.into, tenant=own_tenant())
        self._name: str | None = None
        self._waiting: list[tuple[str, str]] = []
        # Names of the items sent, among which successors are looked for.
        self._sent_names: set[str] = set()

    def run(self, items: Iterable[Item]) -> Report:
        """Send all items, and return the report."""
        for batch in _batches(self._readable(items)):
            self._send(batch)
        for location, successor in self._waiting:
            if successor not in self._sent_names:
                self._report.warn(location, missing_successor_warning(successor))
        return self._report

    def _readable(self, items: Iterable[Item]) -> Iterator[Item | Refused]:
        for item in items:
            self._report.forms.add(item.form)
            for warning in item.warnings:
                self._report.warn(item.where, warning)
            if item.value is None and item.error is None and item.warnings:
                continue
            try:
                yield self._placed(item)
            except MemorandaError as error:
                yield Refused(item, error)

    def _placed(self, item: Item) -> Item:
        """Return an item with its target namespace.

        The client does this, because only it has all items and notices when two get the same key.
        """
        if item.error is not None:
            raise item.error
        if item.form != "oams" or self._renaming is None or not isinstance(item.value, dict):
            return item
        memory = self._renaming.apply(item.value, is_foreign=item.is_foreign)
        return item if memory is item.value else replace(item, value=memory, raw=None)

    def _send(self, batch: list[Item | Refused]) -> None:
        """Send the items that can be read, and report refusals of both sides in their order."""
        # The server names refused items by these numbers.
        numbered = list(enumerate(batch, 1))
        items_sent = [
            replace(item, number=number) for number, item in numbered if isinstance(item, Item)
        ]
        self._sent_names.update(name for item in items_sent if (name := _name(item)))
        options = self._options
        part = self._send_part(
            items_sent,
            label=options.label,
            name=self._name,
            adopt=options.adopt,
            into=options.into,
            restore=options.restore,
            is_dry=options.is_dry,
        )
        self._name, self._waiting = part.name or self._name, [*self._waiting, *part.waiting]
        here = Report()
        for number, entry in numbered:
            if isinstance(entry, Refused):
                here.refuse(entry.item.where, entry.item.name, entry.error, number=number)
        part.report.refused += here.refused
        refusals = [*part.report.refusals, *here.refusals]
        refusals.sort(key=lambda refusal: refusal.number or len(batch) + 1)
        part.report.refusals = [_renumbered(refusal, batch) for refusal in refusals]
        self._report.add(part.report)
        if self._progress is not None:
            self._progress(self._report.imported_count + self._report.refused)


def _renumbered(refusal: Refusal, batch: list[Item | Refused]) -> Refusal:
    if not refusal.number:
        return refusal
    entry = batch[refusal.number - 1]
    return replace(refusal, number=(entry if isinstance(entry, Item) else entry.item).number)


def _batches(items: Iterable[Item | Refused]) -> Iterator[list[Item | Refused]]:
    """Yield batches that fit into one request."""
    batch: list[Item | Refused] = []
    size = 0
    for entry in items:
        length = len(dump(item_document(entry))) if isinstance(entry, Item) else 0
        if batch and (size + length > _BATCH_BYTES or len(batch) == MAX_IMPORT):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += length
    if batch:
        yield batch


def item_document(item: Item) -> dict[str, object]:
    """Return an item as a request writes it."""
    document: dict[str, object] = {"form": item.form, "where": item.where, "number": item.number}
    if item.raw is not None:
        document["line"] = item.raw.decode("utf-8")
    else:
        document["value"] = (
            base64_encode(item.value) if isinstance(item.value, bytes) else item.value
        )
    if item.index is not DEFAULT:
        document["index"] = item.index.portable_fields()
    return document


def send_part(
    verbs: RemoteVerbs, items: Iterable[Item], into: Namespace | None, **how: object
) -> ImportPart:
    """Send one part of an import in one request, and return the server's answer to it."""
    answer = verbs._document(
        "import_part",
        items=[item_document(item) for item in items],
        into=None if into is None else str(into),
        **how,
    )
    waiting = [(item["where"], item["successor"]) for item in answer["waiting"]]
    return ImportPart(report=Report.of(answer["report"]), name=answer["import"], waiting=waiting)


def _name(item: Item) -> str | None:
    """Return the name by which another memory may call it its successor."""
    if item.form != "oms":
        return cast("str | None", item.name) if isinstance(item.name, str) else None
    try:
        opened_delivery = open_delivery(item.value)
    except MemorandaError:
        return None
    return (
        opened_delivery.grain if isinstance(opened_delivery, SignedGrain) else opened_delivery
    ).address
