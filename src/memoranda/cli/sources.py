"""Options and messages that import and convert share."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from memoranda.bindings.files.importers.table import table_with
from memoranda.cli.show import counted, note
from memoranda.errors import InvalidInput

if TYPE_CHECKING:
    from memoranda.bindings.files.importers.importer import Importer, Survey

COLUMNS_HELP = "Columns of a table: text=NAME,user=NAME,created=NAME and so on."


@dataclass(slots=True, kw_only=True)
class SurveyLog:
    """Surveys of sources from other systems: printed for a person when they are known, kept for the JSON answer."""

    is_quiet: bool
    surveys: list[dict[str, object]] = field(default_factory=list)

    def add(self, source: str, system: str, survey: Survey) -> None:
        """Add the survey of a source, with the number of its memories and users."""
        self.surveys.append(
            {"source": source, "system": system, "memories": survey.memories, "users": survey.users}
        )
        if not self.is_quiet:
            of_users = f" of {counted(survey.users, 'user')}" if survey.users else ""
            note(
                f"{source}: from {system}, {counted(survey.memories, 'memory', 'memories')}{of_users}"
            )

    def document(self) -> dict[str, object]:
        """Return the part of the JSON answer about sources."""
        return {"sources": self.surveys} if self.surveys else {}


def importer_of(format_name: str | None, columns: str | None) -> str | Importer | None:
    """Return the format of the sources, or an importer of tables for `--map`; None to detect it from each file."""
    if columns is not None and format_name not in (None, "table"):
        raise InvalidInput("--map names the columns of tables; leave out --format")
    return format_name if columns is None else table_with(columns)


def require_sources(sources: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sources, or standard input if there are none and input is piped in. Raises InvalidInput."""
    if not sources and sys.stdin.isatty():
        raise InvalidInput("no file given: name files or folders, or pipe records in")
    return sources or ("-",)
