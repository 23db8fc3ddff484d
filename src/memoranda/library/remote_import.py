"""An import over a server: items are read here, and sent a part at a time.

Files stay on this machine; each memory in them travels in its own form. An item that cannot be read is refused here, at
its position in the report. A successor that comes with a later part is no reason for a warning; one that never comes
is. The server records all parts as one import, which can be undone as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from msgspec.structs import replace
from msgspec.structs import replace as with_changes

from memoranda.encoding.bases import base64_encode
from memoranda.encoding.json_text import dump
from memoranda.errors import MemorandaError, Unsupported
from memoranda.library.connection import Connection
from memoranda.service.exchange import Item, Part, Renaming, missing_successor
from memoranda.service.report import Refusal, Report
from memoranda.standards.oams.namespace import Namespace, owner_hash
from memoranda.standards.oms.manifest import DEFAULT
from memoranda.standards.oms.signature import SignedGrain, open_delivery
from memoranda.standards.ump.requests import MAX_IMPORT

# Half of what a server takes.
_BATCH_BYTES: Final = 1_048_576


def part(
    server: Connection,
    items: Iterable[Item],
    *,
    label: str | None,
    name: str | None = None,
    adopt: bool = False,
    into: Namespace | None = None,
    restore: bool = False,
    is_dry: bool = False,
) -> Part:
    """Send one part, which fits into one request."""
    asked = {"items": [_said(each) for each in items], "adopt": adopt, "restore": restore, "dry_run": is_dry}
    more = {"what": label, "id": name, "namespace": None if into is None else str(into)}
    said = server.post("/ump/imports", {**asked, **{key: value for key, value in more.items() if value is not None}})
    waiting = [(each["where"], each["successor"]) for each in said["waiting"]]
    return Part(report=Report.of(said["report"]), name=said["import"], waiting=waiting)


@dataclass(frozen=True, slots=True)
class Refused:
    """What cannot be read, or cannot go where it is to go."""

    item: Item
    error: MemorandaError


class RemoteImport:
    """One import on its way."""

    def __init__(
        self,
        server: Connection,
        *,
        owner: str | None = None,
        adopt: bool = False,
        into: Namespace | None = None,
        restore: bool = False,
        is_dry: bool = False,
        progress: Callable[[int], None] | None = None,
        report: Report | None = None,
        label: str | None = None,
    ) -> None:
        if owner is not None:
            raise Unsupported("owner: the key decides whose memory it is")
        self._server = server
        self._how: dict[str, Any] = {"adopt": adopt, "into": into, "restore": restore, "is_dry": is_dry}
        self._label = label
        self._progress = progress
        self._report = report if report is not None else Report()
        self._renaming: Renaming | None = None
        if adopt or into is not None:
            own = owner_hash(str(server.get("/ump/stats")["owner"]))
            self._renaming = Renaming(into=into, owner=own)
        self._name: str | None = None
        self._waiting: list[tuple[str, str]] = []
        # What was sent, where anything waits for a successor.
        self._sent: set[str] = set()

    def run(self, items: Iterable[Item]) -> Report:
        """Send all of it."""
        for batch in _batches(self._readable(items)):
            self._send(batch)
        for where, successor in self._waiting:
            if successor not in self._sent:
                self._report.warn(where, missing_successor(successor))
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
        """The item at the place where it goes; that two go to the same place is seen only by who has all of them."""
        if item.error is not None:
            raise item.error
        if item.form != "oams" or self._renaming is None or not isinstance(item.value, dict):
            return item
        return Item(
            form="oams", value=self._renaming.apply(item.value), where=item.where, number=item.number, index=item.index
        )

    def _send(self, batch: list[Item | Refused]) -> None:
        """Send what can be read, and put what was refused there and here into one order."""
        # The server tells by these numbers what it refused.
        sent = [with_changes(each, number=place) for place, each in enumerate(batch, 1) if isinstance(each, Item)]
        self._sent.update(name for each in sent if (name := _name(each)))
        done = part(self._server, sent, label=self._label, name=self._name, **self._how)
        self._name, self._waiting = done.name or self._name, [*self._waiting, *done.waiting]
        here = Report()
        for place, each in enumerate(batch, 1):
            if isinstance(each, Refused):
                here.refuse(each.item.where, each.item.name, each.error, number=place)
        done.report.refused += here.refused
        refused = sorted([*done.report.refusals, *here.refusals], key=lambda each: each.number or len(batch) + 1)
        done.report.refusals = [_renumbered(each, batch) for each in refused]
        self._report.add(done.report)
        if self._progress is not None:
            self._progress(self._report.taken + self._report.refused)


def _renumbered(refusal: Refusal, batch: list[Item | Refused]) -> Refusal:
    if not refusal.number:
        return refusal
    found = batch[refusal.number - 1]
    return replace(refusal, number=(found if isinstance(found, Item) else found.item).number)


def _batches(items: Iterable[Item | Refused]) -> Iterator[list[Item | Refused]]:
    """As many as fit into one request."""
    batch: list[Item | Refused] = []
    size = 0
    for each in items:
        length = len(dump(_said(each))) if isinstance(each, Item) else 0
        if batch and (size + length > _BATCH_BYTES or len(batch) == MAX_IMPORT):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += length
    if batch:
        yield batch


def _said(item: Item) -> dict[str, Any]:
    said: dict[str, Any] = {"form": item.form, "where": item.where, "number": item.number}
    if item.raw is not None:
        said["line"] = item.raw.decode("utf-8")
    else:
        said["value"] = base64_encode(item.value) if isinstance(item.value, bytes) else item.value
    if item.index is not DEFAULT:
        said["index"] = item.index.known()
    return said


def _name(item: Item) -> str | None:
    """What another memory may name as its successor."""
    if item.form != "oms":
        return cast("str | None", item.name) if isinstance(item.name, str) else None
    try:
        opened = open_delivery(item.value)
    except MemorandaError:
        return None
    return (opened.grain if isinstance(opened, SignedGrain) else opened).address
