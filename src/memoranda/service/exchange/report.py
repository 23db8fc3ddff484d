"""The report of memories that were moved: one form for imports, exports and checks, in every standard.

One report is filled while memories move and printed at the end; reports of parts are added together (`add`), and one
that came over HTTP is read back with `of`. Counts are complete, but only the first refusals and warnings are kept,
because a damaged file could have millions. A refusal says where the item is, so the person can find it in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import asdict

from memoranda.errors import MemorandaError
from memoranda.standards.oams.memory import Memory

# The forms of files; openwop entries travel inside the others.
Form = Literal["ump", "oams", "oms"]
# Refusals and warnings that are listed, in entries; more are only counted.
LISTED_LIMIT: Final = 100
_COUNTS: Final = (
    *(
        "created",
        "merged",
        "updated",
        "unchanged",
        "forgotten",
        "exported",
        "verified",
        "refused",
        "warned",
        "kept",
    ),
    "redacted",
    "earlier_versions",
)


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An item that was not imported, exported or verified: its position in the file (or number, from 1), and the
    reason.
    """

    where: str
    number: int = 0
    id: str
    code: str
    message: str

    def document(self) -> dict[str, str]:
        """Return the refusal as JSON."""
        return {"where": self.where, "id": self.id, "code": self.code, "message": self.message}


class Report(msgspec.Struct, kw_only=True):
    """The result of an import, an export or a check. Counts cover everything; only the first refusals are listed.

    Records and grains that were stored already are `merged`, OAMS memories `unchanged`.
    """

    created: int = 0
    merged: int = 0
    updated: int = 0
    unchanged: int = 0
    # Memories that were deleted here after the file was written, and stay deleted.
    forgotten: int = 0
    exported: int = 0
    verified: int = 0
    refused: int = 0
    warned: int = 0
    # Memories whose export a consent or a rule of the store forbids.
    kept: int = 0
    # Memories that were exported without the fields that their consent strips.
    redacted: int = 0
    # Earlier versions of exported memories that an export without history does not hold.
    earlier_versions: int = 0
    refusals: list[Refusal] = msgspec.field(default_factory=list)
    warnings: list[str] = msgspec.field(default_factory=list)
    # The forms of the imported items.
    forms: set[Form] = msgspec.field(default_factory=set)

    @property
    def imported_count(self) -> int:
        """The number of items that were imported or stored already."""
        return self.created + self.merged + self.updated + self.unchanged

    @property
    def left_behind(self) -> int:
        """The number of memories that could not or may not be exported."""
        return self.refused + self.kept

    def refuse(
        self,
        location: str,
        name: object,
        error: MemorandaError,
        *,
        number: int = 0,
        message: str | None = None,
    ) -> None:
        """Count a refusal. `message` replaces the error's own where that would repeat the position."""
        self.refused += 1
        if len(self.refusals) < LISTED_LIMIT:
            name_text = name if isinstance(name, str) else ""
            text = error.message if message is None else message
            self.refusals.append(
                Refusal(where=location, number=number, id=name_text, code=error.code, message=text)
            )

    def document(self) -> dict[str, Any]:
        """Return the report as JSON."""
        details = {
            "refusals": [asdict(refusal) for refusal in self.refusals],
            "warnings": self.warnings,
        }
        return {
            **{name: getattr(self, name) for name in _COUNTS},
            **details,
            "forms": sorted(self.forms),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Report:
        """Return the report that a JSON document states."""
        refusals = [Refusal(**refusal) for refusal in document["refusals"]]
        return cls(**{**document, "refusals": refusals, "forms": set(document["forms"])})

    def add(self, other: Report) -> None:
        """Add the counts and the messages of a partial report."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.refusals += other.refusals[: max(0, LISTED_LIMIT - len(self.refusals))]
        self.warnings += other.warnings[: max(0, LISTED_LIMIT - len(self.warnings))]
        self.forms |= other.forms

    def keep(self, name: str, why: str) -> None:
        """Count a memory that is not exported, with the reason."""
        self.kept += 1
        self._add_warning(f"{name} is not exported: {why}")

    def redact(self, name: str) -> None:
        """Count a memory that is exported in part."""
        self.redacted += 1
        self._add_warning(f"{name} is exported without the fields that its consent redacts")

    def skip_forgotten(self, location: str) -> None:
        """Count an item that was deleted here and is not imported again."""
        self.forgotten += 1
        self._add_warning(
            f"{location}: deleted here after the file was written, so it is not imported; use --restore to import it"
        )

    def warn(self, location: str, message: str) -> None:
        """Add a warning about an item."""
        self._add_warning(f"{location}: {message}")

    def _add_warning(self, warning: str) -> None:
        self.warned += 1
        if len(self.warnings) < LISTED_LIMIT:
            self.warnings.append(warning)


class OamsExportPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of an export in OAMS form: each line as bytes, and parsed."""

    lines: list[tuple[bytes, Memory]]
    # The position of the next page; None at the end.
    following: str | None
    # The position of the first page. Exports of further namespaces begin with it, so that all show the same moment.
    start: str
    report: Report
