"""Make a fixture of a store of this version, on SQLite and on PostgreSQL.

`python -m tests.upgrades.make_fixture` writes `tests/samples/stores/VERSION-sqlite.tar.gz` and `…-postgres.tar.gz`. Run
it once for every release, in the commit that names the version, and add the digests of new migrations to RELEASED in
`tests/storage/test_migrations.py`. A fixture holds:

    facts.json         what contents.py wrote, and must be found again
    store.backup       a backup of the store on SQLite, with its key ring
    encrypted.backup   the same store, encrypted with PASSPHRASE; fixtures of builds before 1.0 have none
    dump.sql           the database on PostgreSQL, as pg_dump writes it, with its key ring
    operator.key, master.key   its keys
"""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from memoranda import Memoranda, __version__
from memoranda.backup import back_up
from memoranda.settings import Settings
from tests.upgrades.contents import fill

SAMPLES: Final = Path(__file__).parents[1] / "samples" / "stores"
PASSPHRASE: Final = "correct horse"
# Lines that only the psql of the same version understands.
_FOREIGN_LINES: Final = ("\\restrict", "\\unrestrict", "SET transaction_timeout", "SET row_security")


def main(folder: Path = SAMPLES) -> None:
    """Write both fixtures of this version."""
    os.environ["MEMORANDA_EMBEDDER"] = "off"
    with tempfile.TemporaryDirectory() as scratch:
        write_fixture(folder / f"{__version__}-sqlite.tar.gz", make_sqlite(Path(scratch, "sqlite")))
        write_fixture(folder / f"{__version__}-postgres.tar.gz", make_postgres(Path(scratch, "postgres")))


def make_sqlite(home: Path) -> dict[str, bytes]:
    """Make a store on SQLite; return the files of its fixture."""
    with Memoranda.open(home) as m:
        facts = fill(m)
    plain, encrypted = home / "store.backup", home / "encrypted.backup"
    back_up(Settings(home=home), plain)
    back_up(Settings(home=home), encrypted, passphrase=PASSPHRASE)
    return {"facts.json": _encode(facts), **{path.name: path.read_bytes() for path in (plain, encrypted)}}


def make_postgres(home: Path) -> dict[str, bytes]:
    """Make a store on PostgreSQL; return the files of its fixture."""
    from tests.postgres import server

    os.environ["MEMORANDA_HOME"] = str(home)
    name = server().scratch()
    with Memoranda.open(server().address(name)) as m:
        facts = fill(m)
    keys = {key: (home / key).read_bytes() for key in ("operator.key", "master.key")}
    return {"facts.json": _encode(facts), "dump.sql": dump(server().address(name, None)), **keys}


def dump(address: str) -> bytes:
    """Return a database as SQL that every supported version of PostgreSQL reads."""
    from tests.postgres import programs

    options = ["--no-owner", "--no-privileges", "--rows-per-insert=50", address]
    command = [str(programs() / "pg_dump"), *options]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [line for line in text.splitlines() if not line.startswith(_FOREIGN_LINES)]
    return "\n".join(lines).encode()


def write_fixture(path: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a fixture."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=0) as file,
        tarfile.open(fileobj=file, mode="w") as tar,
    ):
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    print(path.name, path.stat().st_size, "bytes")


def read_fixture(path: Path) -> dict[str, bytes]:
    """Return the files of a fixture."""
    with tarfile.open(path, "r:gz") as tar:
        return {entry.name: _read(tar, entry) for entry in tar}


def _read(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(entry)
    assert file is not None
    return file.read()


def _encode(facts: Mapping[str, Any]) -> bytes:
    return json.dumps(facts, indent=1).encode()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
