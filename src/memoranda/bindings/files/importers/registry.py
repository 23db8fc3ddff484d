"""The list of importers, the choice of one for a source, and the codec for `exchange.py` that runs it.

The most confident importer wins, if it is sure enough; an option of the command names one directly. Order matters only
for equal confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

import msgspec

from memoranda.bindings.files.folder import STANDARD_STREAM
from memoranda.bindings.files.importers.areev import AREEV
from memoranda.bindings.files.importers.chats import CHATGPT, CLAUDE
from memoranda.bindings.files.importers.importer import (
    DraftResult,
    Importer,
    ImportGrain,
    Survey,
    Unreadable,
    build_memory,
)
from memoranda.bindings.files.importers.langchain import LANGCHAIN
from memoranda.bindings.files.importers.langgraph import LANGGRAPH
from memoranda.bindings.files.importers.letta import LETTA
from memoranda.bindings.files.importers.mem0 import MEM0
from memoranda.bindings.files.importers.mempalace import MEMPALACE
from memoranda.bindings.files.importers.mif import MIF
from memoranda.bindings.files.importers.notes import BASIC_MEMORY, MEMORY_TOOL, NOTES, RULES
from memoranda.bindings.files.importers.pam import PAM
from memoranda.bindings.files.importers.rem import REM
from memoranda.bindings.files.importers.server_memory import SERVER_MEMORY
from memoranda.bindings.files.importers.session_databases import CURSOR, OPENCODE
from memoranda.bindings.files.importers.sessions import (
    CLAUDE_CODE,
    CLINE,
    CODEX,
    CONTINUE,
    GEMINI,
    VSCODE,
)
from memoranda.bindings.files.importers.source import ImportSource
from memoranda.bindings.files.importers.table import TABLE
from memoranda.bindings.files.importers.zep import ZEP
from memoranda.errors import InvalidInput, MemorandaError, Unsupported
from memoranda.service.exchange.importing import Item
from memoranda.service.exchange.report import Report

IMPORTERS: Final[dict[str, Importer]] = {
    importer.name: importer
    for importer in (
        *(CLAUDE_CODE, CODEX, GEMINI, CLINE, CONTINUE, VSCODE, OPENCODE, CURSOR),
        *(MEM0, SERVER_MEMORY, LANGGRAPH, CHATGPT, CLAUDE),
        *(BASIC_MEMORY, MEMORY_TOOL, RULES, NOTES),
        *(ZEP, MEMPALACE, REM),
        *(AREEV, LETTA, LANGCHAIN, PAM, MIF, TABLE),
    )
}
# The lowest probability for which an importer is chosen.
_SURE: Final = 0.5


def recognise_importer(path: Path) -> Importer | None:
    """Return the importer that fits a file, a folder or an archive best; None if none fits."""
    with ImportSource(path) as source:
        best, importer = max(
            ((_confidence(candidate, source), candidate) for candidate in IMPORTERS.values()),
            key=lambda pair: pair[0],
        )
    return importer if best >= _SURE else None


def _confidence(importer: Importer, source: ImportSource) -> float:
    try:
        return importer.recognise(source)
    except (MemorandaError, OSError):
        return 0.0


class ImportCodec(msgspec.Struct, frozen=True):
    """The codec of one system: yields its memories as those of OAMS, or its grains. `own` is the importer's hash."""

    importer: Importer
    own: str = ""

    def items(self, source: str, stream: IO[bytes] | None = None) -> Iterator[Item]:  # noqa: ARG002
        for number, result in enumerate(self.read_drafts(source), start=1):
            if isinstance(result, Unreadable):
                yield Item(form="oams", where=result.where, number=number, error=result.error)
                continue
            if isinstance(result, ImportGrain):
                yield Item(
                    form="oms",
                    value=result.delivery,
                    where=result.where,
                    number=number,
                    index=result.index,
                    alias=result.alias,
                )
                continue
            try:
                memory = build_memory(result, self.importer.name, self.own)
            except MemorandaError as error:
                yield Item(form="oams", where=result.where, number=number, error=error)
                continue
            yield Item(
                form="oams", value=memory, where=result.where, number=number, is_foreign=True
            )

    def read_drafts(self, source: str) -> Iterator[DraftResult]:
        """Yield the drafts and errors of a source; an error of the source itself ends it."""
        if source == STANDARD_STREAM:
            yield Unreadable(
                source,
                InvalidInput(
                    f"a source of {self.importer.title} is read from a file, not piped in"
                ),
            )
            return
        try:
            with ImportSource(Path(source)) as import_source:
                for result in self.importer.read_drafts(import_source):
                    yield self._name_system(result) if isinstance(result, Unreadable) else result
        except MemorandaError as error:
            yield self._name_system(Unreadable(source, error))
        except OSError as error:
            yield self._name_system(Unreadable(source, InvalidInput(error.strerror or str(error))))

    def _name_system(self, unreadable: Unreadable) -> Unreadable:
        """Add the name of the system to the message of an error: a wrong recognition may be its cause."""
        error = unreadable.error
        if self.importer.title not in error.message:
            error.message = f"{error.message} (taken for {self.importer.title})"
        return unreadable

    def survey(self, source: str) -> Survey:
        return Survey.of(self.read_drafts(source))

    def verify(
        self,
        source: str,
        report: Report,
        progress: Callable[[int], None],  # noqa: ARG002
        stream: IO[bytes] | None = None,  # noqa: ARG002
    ) -> None:
        report.refuse(
            source,
            "",
            Unsupported(f"memories of {self.importer.title} carry no signature to check"),
        )

    def count(self, source: str) -> int | None:
        survey = self.survey(source)
        return survey.memories + survey.unreadable
