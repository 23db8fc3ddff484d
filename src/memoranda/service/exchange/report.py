"""What became of memories that were moved: one report for imports, exports and checks, of every form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import asdict

from memoranda.errors import MemorandaError

# The forms in which memories travel in files; openwop entries travel inside the others.
Form = Literal["ump", "oams", "oms"]
# More are counted, and read by nobody.
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
)


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """What was not taken in, did not leave or did not verify: where it stood (or its number, from 1), and why."""

    where: str
    number: int = 0
    id: str
    code: str
    message: str

    def document(self) -> dict[str, str]:
        return {"where": self.where, "id": self.id, "code": self.code, "message": self.message}


class Report(msgspec.Struct, kw_only=True):
    """What an import, an export or a check came to. The first refusals and warnings are listed, the counts are of all.

    Records and grains that were here already are `merged`, OAMS memories `unchanged`.
    """

    created: int = 0
    merged: int = 0
    updated: int = 0
    unchanged: int = 0
    # What was forgotten here after it was written, and stays so.
    forgotten: int = 0
    exported: int = 0
    verified: int = 0
    refused: int = 0
    warned: int = 0
    # What stayed here because its consent or a rule of the store says so.
    kept: int = 0
    # What left without the fields that its consent strips.
    redacted: int = 0
    refusals: list[Refusal] = msgspec.field(default_factory=list)
    warnings: list[str] = msgspec.field(default_factory=list)
    # Of what was brought in.
    forms: set[Form] = msgspec.field(default_factory=set)

    @property
    def taken(self) -> int:
        """How many went in or were there."""
        return self.created + self.merged + self.updated + self.unchanged

    @property
    def left_behind(self) -> int:
        """How many could not leave, or may not."""
        return self.refused + self.kept

    def refuse(
        self,
        where: str,
        name: object,
        error: MemorandaError,
        *,
        number: int = 0,
        message: str | None = None,
    ) -> None:
        """Count a refusal; `message` where the error's own says the place once more."""
        self.refused += 1
        if len(self.refusals) < LISTED_LIMIT:
            name_text = name if isinstance(name, str) else ""
            text = error.message if message is None else message
            self.refusals.append(
                Refusal(where=where, number=number, id=name_text, code=error.code, message=text)
            )

    def document(self) -> dict[str, Any]:
        """All of it as JSON."""
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
    def of(cls, said: Mapping[str, Any]) -> Report:
        """What such a document says."""
        refusals = [Refusal(**each) for each in said["refusals"]]
        return cls(**{**said, "refusals": refusals, "forms": set(said["forms"])})

    def add(self, other: Report) -> None:
        """Add the counts and the refusals of a check of a part."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.refusals += other.refusals[: max(0, LISTED_LIMIT - len(self.refusals))]
        self.warnings += other.warnings[: max(0, LISTED_LIMIT - len(self.warnings))]
        self.forms |= other.forms

    def keep(self, name: str, why: str) -> None:
        """Count what stayed here, and say why."""
        self.kept += 1
        self._add_warning(f"{name} stays here: {why}")

    def redact(self, name: str) -> None:
        """Count what left in part."""
        self.redacted += 1
        self._add_warning(f"{name} leaves without what its consent redacts")

    def skip_forgotten(self, where: str) -> None:
        """Count what a file brings and what was forgotten here since."""
        self.forgotten += 1
        self._add_warning(
            f"{where}: forgotten here after it was written, and stays so; restore it to have it back"
        )

    def warn(self, where: str, message: str) -> None:
        self._add_warning(f"{where}: {message}")

    def _add_warning(self, warning: str) -> None:
        self.warned += 1
        if len(self.warnings) < LISTED_LIMIT:
            self.warnings.append(warning)
