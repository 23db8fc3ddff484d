"""backup, restore and migrate-store: the whole store, with its keys, in one file or in another database.

A backup is one file with a consistent copy of the database and all keys, so anyone who has the file can read
everything: it is readable by its owner alone, and can be encrypted with a passphrase. A restore checks the whole file
before it changes anything, moves an existing store aside instead of deleting it, and never applies settings of the
backup without asking. The work is done in `service/` by the functions imported here.
"""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from memoranda.backup import SettingDifference, back_up, move_store
from memoranda.backup import restore as restore_store
from memoranda.bindings.files.archive import is_encrypted
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import count_phrase, is_confirmed, line, note, progress, progress_steps
from memoranda.errors import InvalidInput
from memoranda.settings import SECRET_SETTINGS, without_password

PASSPHRASE_VARIABLE = "MEMORANDA_PASSPHRASE"  # noqa: S105 -- the name of the variable, not its value


def backup(
    target: Annotated[str, Parameter(name="FILE", help="The file to write; only you can read it.")],
    /,
    *,
    passphrase: Annotated[
        bool,
        Parameter(
            help=f"Encrypt it with a passphrase, from {PASSPHRASE_VARIABLE} or typed at the terminal."
        ),
    ] = False,
    run: GivenRun,
) -> None:
    """Write the whole store to one file: memories, indexes, vectors and all keys. A server may keep running.

    The file gets its name only after it was read back and checked. It holds the operator's key and the encryption keys:
    store it as safely as those, or encrypt it. Memories erased later remain in it.
    """
    secret = _read_passphrase(twice=True) if passphrase else None
    with progress_steps("copying", "writing", "checking") as (copying, writing, checking):
        result = back_up(
            run.settings(),
            Path(target),
            passphrase=secret,
            copying=copying,
            writing_progress=writing,
            checking=checking,
        )
    document = {
        "target": target,
        "files": result.files,
        "bytes": result.bytes,
        "operator": result.operator,
        "encrypted": result.encrypted,
    }
    encrypted = ", encrypted" if result.encrypted else ""
    run.answer(
        document,
        lambda: line(
            f"{count_phrase(result.files, 'file')}, {result.bytes} bytes, to {target}{encrypted}"
        ),
    )


def restore(
    source: Annotated[str, Parameter(name="FILE", help="A file written by `memoranda backup`.")],
    /,
    *,
    force: Annotated[
        bool,
        Parameter(help="Move an existing store into a folder inside the data directory first."),
    ] = False,
    apply_settings: Annotated[
        bool,
        Parameter(help="Apply settings in the backup that differ from yours, without asking."),
    ] = False,
    run: GivenRun,
) -> None:
    """Restore a store from a backup into an empty data directory (--data). Stop its server first.

    The whole file is read and checked before anything is changed. With --store on PostgreSQL, the database must not
    hold a store. The passphrase is read from MEMORANDA_PASSPHRASE or typed at the terminal.
    """
    path = Path(source)
    secret = _read_passphrase() if path.is_file() and is_encrypted(path) else None
    with progress("restoring") as bar:
        result = restore_store(
            run.settings(),
            path,
            passphrase=secret,
            force=force,
            takes_settings=lambda differences: apply_settings or _ask_for_settings(differences),
            progress=bar,
        )
    document = {
        "files": result.files,
        "operator": result.operator,
        "made": result.created,
        "aside": result.aside,
        "settings": result.settings,
        "differences": [
            {
                "name": name,
                "backup": _show_setting(name, backup),
                "current": _show_setting(name, current),
            }
            for name, backup, current in result.differences
        ],
    }
    if result.settings is not None and not run.json:
        names = ", ".join(difference.name for difference in result.differences)
        reason = f"differ ({names})" if names else "cannot be read"
        note(
            f"the settings in the backup {reason} and were not applied; they are in {result.settings}"
        )
    summary = f"{count_phrase(result.files, 'file')} restored, as of {result.created}"
    previous = f"; the previous store is in {result.aside}" if result.aside else ""
    run.answer(document, lambda: line(summary + previous))


def _ask_for_settings(differences: Sequence[SettingDifference]) -> bool:
    """Show the settings in a backup that differ from those in force; return True if the person wants them."""
    if not sys.stdin.isatty():
        return False
    note("the backup has other settings than this installation:")
    for name, backup, current in differences:
        note(f"  {name} = {_show_setting(name, backup)}, here {_show_setting(name, current)}")
    return is_confirmed("Apply the settings of the backup?")


def _show_setting(name: str, value: object) -> str:
    """Return the value of a setting as text, unless it is secret."""
    return "(secret)" if name in SECRET_SETTINGS and value else str(value)


def _read_passphrase(*, twice: bool = False) -> str:
    """Return the passphrase: from the environment, the terminal, or the first line of piped input."""
    if passphrase := os.environ.get(PASSPHRASE_VARIABLE):
        return passphrase
    if not sys.stdin.isatty():
        passphrase = sys.stdin.readline().rstrip("\r\n")
    else:
        passphrase = getpass.getpass("Passphrase: ", stream=sys.stderr)
        if (
            twice
            and passphrase
            and getpass.getpass("Repeat the passphrase: ", stream=sys.stderr) != passphrase
        ):
            raise InvalidInput("the two passphrases differ")
    if not passphrase:
        raise InvalidInput(
            f"no passphrase given: type it, pipe it in, or set {PASSPHRASE_VARIABLE}"
        )
    return passphrase


def migrate_store(
    source: Annotated[
        str, Parameter(name="FROM", help="The existing store: sqlite:///PATH or postgresql://…")
    ],
    target: Annotated[
        str, Parameter(name="TO", help="The new store: sqlite:///PATH or postgresql://…")
    ],
    /,
    *,
    run: GivenRun,
) -> None:
    """Copy the whole store to another database: memories with their ids, keys, credentials, vectors and audit log.

    Stop its servers first. All rows are compared afterwards, and the existing store stays unchanged; after an
    interruption the same command continues. The keys in the data directory (--data) work for both.
    """
    with progress_steps("copying", "comparing") as (copied, compared):
        rows = move_store(source, target, copied=copied, compared=compared)
    document = {"from": without_password(source), "to": without_password(target), "rows": rows}
    summary = f"{count_phrase(rows, 'row')} copied and compared; from now on use: --store {document['to']}"
    run.answer(document, lambda: line(summary))
