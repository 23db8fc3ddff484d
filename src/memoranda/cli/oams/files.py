"""OAMS in files, without a store: `oams validate`, and a JSONL file or a bundle that is read as a store.

A `FileStore` holds the memories of one file, and each change is written to the file at once. Names of namespaces are
looked up in the file, because a file may come from another owner. Whether memories are valid is decided by
`standards/oams`; this module only adds the position in the file.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from memoranda.bindings.files import oams
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import count_phrase, line, note, note_report, progress_steps
from memoranda.errors import InvalidInput, NotFound, VersionMismatch
from memoranda.keys import OPERATOR_KEY_FILE, operator_key
from memoranda.service.oams import file as oams_file
from memoranda.standards.oams.bundle import LINES_NAME
from memoranda.standards.oams.jsonl_store import JsonlStore
from memoranda.standards.oams.memory import Memory, Warnings, assign_times, check, same_content
from memoranda.standards.oams.namespace import (
    DEFAULT_SCOPE,
    Namespace,
    owner_hash,
    read_namespace,
)
from memoranda.standards.oams.requests import ListRequest, RecallRequest

if TYPE_CHECKING:
    from memoranda.bindings.files.oams import Validity
    from memoranda.settings import Settings

# The owner in a new file of somebody who has no store. `import --namespace` makes such memories one's own.
_LOCAL_OWNER: Final = "local"


def validate(
    *sources: Annotated[
        str, Parameter(name="FILE", help="Bundles, JSONL or Markdown files; - for standard input.")
    ],
    run: GivenRun,
) -> int:
    """Check every memory in files, and each bundle against its manifest. Exit code 1 if anything is wrong."""
    if not sources and sys.stdin.isatty():
        raise InvalidInput("no file given: name bundles or files, or pipe one in")
    with progress_steps("checking the bundle", "checking the memories") as (checking, bar):
        verdicts = [
            oams.validate(source, checking=checking, progress=bar) for source in sources or ("-",)
        ]
    is_ok = not any(verdict.report.refused for verdict in verdicts)

    def show() -> None:
        for verdict in verdicts:
            _show(verdict)

    run.answer({"ok": is_ok, "files": [_document(verdict) for verdict in verdicts]}, show)
    return 0 if is_ok else 1


def _document(verdict: Validity) -> dict[str, object]:
    report = verdict.report
    return {
        "file": verdict.source,
        "form": verdict.shape,
        "ok": not report.refused,
        "memories": report.verified,
        "refused": report.refused,
        "refusals": [refusal.document() for refusal in report.refusals],
        "warned": report.warned,
        "warnings": report.warnings,
    }


def _show(verdict: Validity) -> None:
    report = verdict.report
    note_report(report)
    memories = count_phrase(report.verified, "memory", "memories")
    warnings = f", {count_phrase(report.warned, 'warning')}" if report.warned else ""
    line(f"{verdict.source}: {memories}{warnings}, {'NOT valid' if report.refused else 'valid'}")


class FileStore:
    """The memories of one file."""

    def __init__(self, path: Path, store: JsonlStore) -> None:
        self._path = path
        self._store = store

    @property
    def namespaces(self) -> list[str]:
        """The namespaces with memories."""
        return list(self._store.namespaces)

    def namespace(self, name: str | None) -> Namespace:
        """Return a namespace of the file: by its name, by its scope if only one owner has it, or the only one."""
        if name is None:
            return oams_file.only_namespace(self._store)
        candidates = [
            namespace for namespace in self._store.namespaces if namespace.partition(":")[2] == name
        ]
        return read_namespace(candidates[0] if len(candidates) == 1 else name)

    def namespace_to_write(self, name: str | None, owner: str) -> Namespace:
        """Return the namespace of a new memory: one of the file, or else the scope `name` of this owner."""
        if name is None and not self._store.namespaces:
            return Namespace(owner, DEFAULT_SCOPE)
        namespace = self.namespace(name)
        is_known = namespace.owner or str(namespace) in self._store.namespaces
        return namespace if is_known else read_namespace(f"{owner}:{name}")

    def recall(self, request: RecallRequest) -> list[Memory]:
        """Return the best memories for a request."""
        # Loads the storage, which reading a file does without.
        from memoranda.opening import system_clock

        return oams_file.recall(self._store, request, system_clock())

    def list_memories(self, request: ListRequest) -> Any:
        """Return a page of memories, with the cursor of the next."""
        return self._store.list_page(request)

    def get(self, name: str | None, key: str) -> Memory:
        """Return the memory under a key. Raises MemoryNotFound."""
        return self._store.get(self.namespace(name), key)

    def store(self, value: object, *, if_absent: bool = False) -> tuple[Memory, str, Warnings]:
        """Write a memory into the file (STORE). Return it with the result, `created`, `updated` or `unchanged`."""
        return self.store_all([value], if_absent=if_absent)[0]

    def store_all(
        self, values: Sequence[object], *, if_absent: bool = False
    ) -> list[tuple[Memory, str, Warnings]]:
        """Write memories into the file, all or none (BATCH_STORE). Raises InvalidInput and VersionMismatch."""
        now = time.time_ns() // 1_000_000
        results: list[tuple[Memory, str, Warnings]] = []
        for value in values:
            memory, warnings = check(value, complete=False)
            prior = self._find(memory)
            if prior is not None and if_absent:
                raise VersionMismatch("a memory is stored under this key already")
            if prior is not None and same_content(prior, memory):
                results.append((prior, "unchanged", warnings))
                continue
            result = "created" if prior is None else "updated"
            results.append((assign_times(memory, now, prior), result, warnings))
        changes = [memory for memory, result, _ in results if result != "unchanged"]
        if len({name_of(memory) for memory in changes}) != len(changes):
            raise InvalidInput("two memories have the same namespace and key")
        if changes:
            oams.rewrite_lines(self._path, {name_of(memory): memory for memory in changes})
        return results

    def forget(self, name: str | None, key: str) -> str:
        """Remove a memory from the file (FORGET); return its namespace. Raises MemoryNotFound."""
        memory = self.get(name, key)
        oams.rewrite_lines(self._path, {name_of(memory): None})
        return memory["namespace"]

    def _find(self, memory: Memory) -> Memory | None:
        """Return the memory of the file with the same namespace and key."""
        try:
            return self._store.get(read_namespace(memory["namespace"]), memory["key"])
        except NotFound:
            return None


def find_owner(settings: Settings) -> str:
    """Return the owner part of new namespaces in files: that of the store's owner, or `local` if there is no store."""
    if settings.owner:
        return owner_hash(settings.owner)
    has_key = (settings.home / OPERATOR_KEY_FILE).exists()
    return owner_hash(operator_key(settings.home).did) if has_key else _LOCAL_OWNER


def name_of(memory: Memory) -> tuple[str, str]:
    """Return namespace and key."""
    return memory["namespace"], memory["key"]


@contextmanager
def open_file(path: Path, *, is_new: bool = False) -> Iterator[FileStore]:
    """Open a JSONL file or a bundle. Lines that are not memories are counted on standard error.

    With `is_new`, a missing file is an empty store.
    """
    if path.is_dir():
        if is_new:
            raise InvalidInput(f"{path}: a bundle has a checksum; write into a JSONL file")
        path = path / LINES_NAME
    if is_new and not path.exists():
        yield FileStore(path, JsonlStore(io.BytesIO()))
        return
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise NotFound(f"{path}: there is no such file") from None
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from None
    with file:
        if not file.seekable():
            raise InvalidInput(f"{path}: a pipe cannot be searched; save it to a file first")
        store = JsonlStore(file)
        if store.refused:
            skipped = count_phrase(store.refused, "invalid line")
            note(f"{path}: skipped {skipped}; for details: memoranda oams validate {path}")
        yield FileStore(path, store)
