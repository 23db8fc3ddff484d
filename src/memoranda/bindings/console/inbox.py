"""The inbox of Review: what waits for a decision, found by a thread in the background.

A scan reads all memories of an owner: for likely secrets, likely prompt injection, contradictions, stale facts and
duplicates. It begins when somebody opens the console and something was written since the last scan. One scan runs at a
time in a process. Its findings are kept in memory only, because they follow from the memories; decisions are stored by
the verbs. A new kind of finding needs its name in `KINDS`, a step in `_scan`, and a card in the template of Review.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from memoranda.errors import MemorandaError
from memoranda.service.core.access import Access
from memoranda.service.openwop.learned import KIND as LEARNED_KIND
from memoranda.service.service import Service
from memoranda.standards.openwop.proposals import Proposal

# Findings of each kind that are kept: more than a person decides in a sitting.
_FINDINGS: Final = 100
# Owners whose findings are kept.
_OWNERS_LIMIT: Final = 200
# A scan that took long begins again only after this multiple of its time.
_REST_FACTOR: Final = 10.0
# Projects in which contradictions are looked for, the first by name.
_PROJECTS_LIMIT: Final = 50
# The kinds of findings, the riskiest first, and their icons.
KINDS: Final[Mapping[str, str]] = {
    "secret": "key",
    "orders": "shield",
    "validate": "split",
    "stale": "stale",
    "duplicate": "twins",
}
_ORDER: Final = tuple(KINDS)
# States of proposals that wait for a decision.
_OPEN: Final = ("draft", "revised")

_log = logging.getLogger(__name__)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that waits for a decision."""

    kind: str
    # Identifies it among the findings of its owner.
    key: str
    text: str
    # The kinds of secrets or instructions.
    labels: tuple[str, ...] = ()
    # The project and the memories of a contradiction; those of other findings have an id and a time, too.
    project: str = ""
    inputs: Sequence[Mapping[str, Any]] = ()
    # The day after the last one that a stale fact is about.
    day: str = ""


class Inbox(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one owner, and how far the scan is."""

    findings: tuple[Finding, ...] = ()
    # The number of candidates and of proposals of agents when the scan ended.
    undecided: int = 0
    # The position of the change feed that a complete scan covers; -1 before the first one.
    position: int = -1
    is_scanning: bool = False
    step: int = 0
    steps: int = 1


class _Scan(msgspec.Struct, kw_only=True):
    """The state of one owner's scans."""

    inbox: Inbox = Inbox()
    end_time: float = 0.0
    took: float = 0.0


class Inboxes:
    """The inboxes of all owners who used this console."""

    def __init__(self) -> None:
        self._scans: dict[str, _Scan] = {}
        self._lock = threading.Lock()
        # One scan at a time: each reads a whole store.
        self._turn = threading.Semaphore(1)

    def find(self, access: Access) -> Inbox:
        """Return what is known of an owner's inbox."""
        scan = self._scans.get(access.default_tenant)
        return Inbox() if scan is None or not may_review(access) else scan.inbox

    def refresh(self, service: Service, access: Access) -> Inbox:
        """Return the inbox, and begin a scan if something was written since the last one."""
        if not may_review(access):
            return Inbox()
        position = service.feed_position(access)
        with self._lock:
            while len(self._scans) >= _OWNERS_LIMIT and access.default_tenant not in self._scans:
                self._scans.pop(next(iter(self._scans)))
            scan = self._scans.setdefault(access.default_tenant, _Scan())
            is_resting = time.monotonic() < scan.end_time + _REST_FACTOR * scan.took
            if scan.inbox.is_scanning or scan.inbox.position == position or is_resting:
                return scan.inbox
            scan.inbox = _with(scan.inbox, is_scanning=True, step=0)
        threading.Thread(
            target=self._run,
            args=(service, access, scan, position),
            name="console-review",
            daemon=True,
        ).start()
        return scan.inbox

    def drop(self, access: Access, *keys: str) -> None:
        """Remove findings that were decided."""
        scan = self._scans.get(access.default_tenant)
        if scan is not None:
            findings = tuple(finding for finding in scan.inbox.findings if finding.key not in keys)
            scan.inbox = _with(scan.inbox, findings=findings)

    def _run(self, service: Service, access: Access, scan: _Scan, position: int) -> None:
        """Scan the memories of one owner. This is the body of a thread."""
        with self._turn:
            began = time.monotonic()
            try:
                findings = self._scan(service, access, scan)
                undecided = len(list_undecided(service, access))
                scan.inbox = Inbox(findings=findings, undecided=undecided, position=position)
            except MemorandaError as error:
                _log.info("the scan for the console stopped: %s", error.message)
                scan.inbox = _with(scan.inbox, is_scanning=False, position=position)
            # The store may be closed meanwhile, in any way that its database has.
            except Exception:  # noqa: BLE001
                _log.debug("the scan for the console stopped", exc_info=True)
                scan.inbox = _with(scan.inbox, is_scanning=False)
            finally:
                scan.end_time = time.monotonic()
                scan.took = scan.end_time - began

    def _scan(self, service: Service, access: Access, scan: _Scan) -> tuple[Finding, ...]:
        """Return all findings, and tell meanwhile how far the scan is."""
        spaces = service.oams.namespaces(access)[:_PROJECTS_LIMIT]
        findings: list[Finding] = []
        steps: list[Callable[[], list[Finding]]] = [
            partial(_find_suspects, service, service.suspects_page, access, "secret"),
            partial(_find_suspects, service, service.orders_page, access, "orders"),
            partial(_find_in_current, service, access),
        ]
        steps += [partial(_find_contradictions, service, access, space) for space in spaces]
        for number, step in enumerate(steps):
            if service.notifier.is_closed:
                break
            scan.inbox = _with(scan.inbox, is_scanning=True, step=number, steps=len(steps))
            findings += step()
        return tuple(sorted(findings, key=lambda finding: _ORDER.index(finding.kind)))


def list_undecided(service: Service, access: Access) -> list[Proposal]:
    """Return the candidates of sessions and the proposals of agents that wait for a decision."""
    proposals = service.openwop.proposals(access)
    learned = service.openwop.proposals(access, kind=LEARNED_KIND)[-_FINDINGS:]
    return [*learned, *(proposal for proposal in proposals if proposal["state"] in _OPEN)]


def may_review(access: Access) -> bool:
    """Return True if an access sees everything of its owner, and may therefore review it."""
    return not access.is_narrowed and not access.is_peer and "read" in access.verbs


def _with(inbox: Inbox, **changes: object) -> Inbox:
    return msgspec.structs.replace(inbox, **changes)


def _find_suspects(service: Service, load_page: Any, access: Access, kind: str) -> list[Finding]:
    """Return the likely secrets, or the likely prompt injection, in current memories."""
    current: list[Finding] = []
    past: list[Finding] = []
    after: int | None = 0
    # Asked before each page, so that a server can stop meanwhile.
    while after is not None and not service.notifier.is_closed:
        page = load_page(access, after=after)
        for suspect in page.suspects:
            finding = Finding(kind=kind, key=suspect.id, text=suspect.text, labels=suspect.kinds)
            (current if suspect.is_current else past).append(finding)
        after = page.next
    # Memories that agents still get come first, the newest before the others.
    return [*current[::-1], *past[::-1]][:_FINDINGS]


def _find_in_current(service: Service, access: Access) -> list[Finding]:
    """Return the stale facts and the duplicates among the current memories."""
    # Loads the comparison of statements, which only a scan needs.
    from memoranda.service.ump.findings import find_in_current

    results = find_in_current(
        service.context, access, should_stop=lambda: service.notifier.is_closed
    )
    stale = [
        Finding(
            kind="stale",
            key=fact.key,
            text=fact.memory.text,
            project=fact.project,
            inputs=(msgspec.structs.asdict(fact.memory),),
            day=fact.day,
        )
        for fact in results.stale
    ]
    duplicates = [
        Finding(
            kind="duplicate",
            key=group.key,
            text=group.memories[0].text,
            project=group.project,
            inputs=tuple(msgspec.structs.asdict(memory) for memory in group.memories),
        )
        for group in results.duplicates
    ]
    return [*stale, *duplicates]


def _find_contradictions(service: Service, access: Access, namespace: str) -> list[Finding]:
    """Return the contradictions in a project."""
    from memoranda.service.consolidation.results import details_of
    from memoranda.standards.oams.namespace import parse_namespace, space_of

    location = parse_namespace(namespace)
    run = service.oams.consolidate(access, location, "validate", is_dry=True)
    # The other findings of this strategy are statements that several memories agree on.
    outputs = [
        output
        for output in run.outputs
        if output.result in ("created", "updated")
        and details_of(output.memory).get("finding") == "contradiction"
    ]
    return [
        Finding(
            kind="validate",
            key=str(output.memory["key"]),
            text=str(output.memory["value"]),
            project=space_of(location, access.default_tenant),
            inputs=tuple(output.document()["inputs"]),
        )
        for output in outputs[:_FINDINGS]
    ]
