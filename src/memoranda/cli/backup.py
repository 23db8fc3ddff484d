"""backup and restore: the whole store, with its keys, in one file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from memoranda.cli.commands import Parameter
from memoranda.cli.run import GivenRun
from memoranda.cli.show import counted, line, note, progress, progress_steps
from memoranda.errors import InvalidInput

PASSPHRASE_VARIABLE = "MEMORANDA_PASSPHRASE"  # noqa: S105 -- where it is, not what it is


def backup(
    target: Annotated[str, Parameter(name="FILE", help="The file to write, readable by you alone.")],
    /,
    *,
    passphrase: Annotated[
        bool, Parameter(help=f"Encrypt it with a passphrase, which is asked for or read from {PASSPHRASE_VARIABLE}.")
    ] = False,
    run: GivenRun,
) -> None:
    """Write the whole store to one file: memories, indexes, vectors and all keys; a server may go on meanwhile.

    The file is read again before it gets its name. It holds the operator's key and the keys of encryption: keep it as
    you keep those, or encrypt it. What is erased later is still in it.
    """
    from memoranda.backup import back_up

    secret = _passphrase(twice=True) if passphrase else None
    with progress_steps("copying", "writing", "checking") as (copying, written, checked):
        made = back_up(
            run.settings(), Path(target), passphrase=secret, copying=copying, written=written, checked=checked
        )
    document = {
        "target": target,
        "files": made.files,
        "bytes": made.bytes,
        "operator": made.operator,
        "encrypted": made.encrypted,
    }
    how = ", encrypted" if made.encrypted else ""
    run.answer(document, lambda: line(f"{counted(made.files, 'file')}, {made.bytes} bytes, to {target}{how}"))


def restore(
    source: Annotated[str, Parameter(name="FILE", help="A file that `memoranda backup` wrote.")],
    /,
    *,
    force: Annotated[bool, Parameter(help="Move the store that is there aside, into a folder beside it.")] = False,
    run: GivenRun,
) -> None:
    """Put a store back from a backup, into an empty data directory (--data). Stop a server that uses it first.

    The whole file is read and compared before anything is changed. A --store on PostgreSQL must be a database without
    one. A passphrase is asked for, or read from MEMORANDA_PASSPHRASE.
    """
    from memoranda.backup import restore as put_back
    from memoranda.bindings.files.archive import is_encrypted

    path = Path(source)
    secret = _passphrase() if path.is_file() and is_encrypted(path) else None
    with progress("restoring") as done:
        found = put_back(run.settings(), path, passphrase=secret, force=force, progress=done)
    document = {
        "files": found.files,
        "operator": found.operator,
        "made": found.made,
        "aside": found.aside,
        "settings": found.settings,
    }
    if found.settings is not None and not run.json:
        note(f"the settings of the backup name another place for the store; they are in {found.settings}")
    said = f"{counted(found.files, 'file')} restored, as of {found.made}"
    aside = f"; what was there is in {found.aside}" if found.aside else ""
    run.answer(document, lambda: line(said + aside))


def _passphrase(*, twice: bool = False) -> str:
    """From the environment, from a person at a terminal, or the first line of what is piped in."""
    if given := os.environ.get(PASSPHRASE_VARIABLE):
        return given
    if not sys.stdin.isatty():
        found = sys.stdin.readline().rstrip("\r\n")
    else:
        from getpass import getpass

        found = getpass("Passphrase: ", stream=sys.stderr)
        if twice and found and getpass("Once more: ", stream=sys.stderr) != found:
            raise InvalidInput("the two passphrases are not the same")
    if not found:
        raise InvalidInput(f"no passphrase given: type it, pipe it in, or set {PASSPHRASE_VARIABLE}")
    return found
