"""What reading files came to: counts, and every complaint with its file and line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from memoranda.errors import MemorandaError
from memoranda.service.exchange import REFUSALS_LIMIT, ImportReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """What is wrong with one record, and where it stands."""

    where: str
    id: str
    code: str
    message: str

    def document(self) -> dict[str, str]:
        return {"where": self.where, "id": self.id, "code": self.code, "message": self.message}


@dataclass(slots=True, kw_only=True)
class FilesReport:
    """What an import or a check of files found. The first complaints and warnings are listed; the counts are of all."""

    created: int = 0
    merged: int = 0
    verified: int = 0
    refused: int = 0
    # Of OAMS memories, whose next version takes the place of the last one.
    updated: int = 0
    unchanged: int = 0
    warned: int = 0
    has_oams: bool = False
    complaints: list[Complaint] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def complain(self, where: str, name: object, error: MemorandaError, message: str | None = None) -> None:
        """Count a refusal; `message` where the error's own says the place once more."""
        shown = name if isinstance(name, str) else ""
        self.complain_of(where, shown, error.code, error.message if message is None else message)

    def complain_of(self, where: str, name: str, code: str, message: str) -> None:
        self.refused += 1
        if len(self.complaints) < REFUSALS_LIMIT:
            self.complaints.append(Complaint(where=where, id=name, code=code, message=message))

    def warn(self, where: str, message: str) -> None:
        self.warned += 1
        if len(self.warnings) < REFUSALS_LIMIT:
            self.warnings.append(f"{where}: {message}")

    def add(self, taken: ImportReport, where: Callable[[int], str]) -> None:
        """Add what the service took in and refused; `where` knows the place of each by its number."""
        self.created += taken.created
        self.merged += taken.merged
        self.refused += taken.refused
        for each in taken.refusals:
            complaint = Complaint(where=where(each.index), id=each.id, code=each.code, message=each.message)
            self.complaints.append(complaint)
