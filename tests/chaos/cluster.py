"""A PostgreSQL with a standby that every commit waits for, and that takes its place when it is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.postgres import account, await_server, programs
from tests.waiting import until

USER: Final = "memoranda"
DATABASE: Final = "memoranda"
# It is killed, not cut off from power: what the system has, it keeps.
_SETTINGS: Final = {
    "fsync": "off",
    "listen_addresses": "",
    "max_connections": "150",
    "shared_buffers": "32MB",
    "wal_level": "replica",
    "max_wal_senders": "4",
    "hot_standby": "on",
    "wal_keep_size": "256MB",
}


class Postgres:
    """One server, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._data = folder, folder / "data"
        folder.mkdir()
        if owner := account():
            shutil.chown(folder, owner["user"], owner["group"])
        self._process: subprocess.Popen[bytes] | None = None
        self.dsn = f"host={folder} user=postgres dbname=postgres"

    def make(self) -> None:
        """With nothing in it."""
        self._run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D", self._data)

    def copy(self, primary: Postgres) -> None:
        """As a standby of another."""
        self._run("pg_basebackup", "-h", primary.folder, "-U", "postgres", "-R", "-c", "fast", "-D", self._data)

    def start(self, **settings: str) -> None:
        given = {**_SETTINGS, "unix_socket_directories": str(self.folder), **settings}
        options = [f"-c{name}={value}" for name, value in given.items()]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [programs() / "postgres", "-D", self._data, *options],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **account(),
            )
        await_server(self.dsn)

    def kill(self) -> None:
        """All its processes, at once."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def promote(self) -> None:
        self.ask("SELECT pg_promote()")

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as raw:
            cursor = raw.execute(query)
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [programs() / program, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self.folder, **account())


class Cluster:
    """A primary and its synchronous standby."""

    def __init__(self) -> None:
        # The name of a socket may not be long.
        self._folder = Path(tempfile.mkdtemp(prefix="memoranda-pg-"))
        self._folder.chmod(0o755)
        self._count = 0
        self.primary = self._another()
        self.primary.make()
        self.primary.start()
        self.primary.ask(f"CREATE ROLE {USER} LOGIN")
        self.primary.ask(f"CREATE DATABASE {DATABASE} OWNER {USER}")
        self.standby = self._follow()

    @property
    def address(self) -> str:
        """Both: whoever opens it gets the one that can be written, whichever that is by then."""
        hosts = ",".join(str(each.folder) for each in (self.primary, self.standby))
        return f"postgresql://{USER}@/{DATABASE}?host={hosts}"

    def _another(self) -> Postgres:
        self._count += 1
        return Postgres(self._folder / f"pg{self._count % 2}")

    def _follow(self) -> Postgres:
        """A new standby, which every commit waits for from here on."""
        made = self._another()
        made.copy(self.primary)
        made.start()
        self.primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.ask("SELECT pg_reload_conf()")
        state = "SELECT sync_state FROM pg_stat_replication"
        until(lambda: self.primary.ask(state) == [("sync",)], "the standby is synchronous")
        return made

    def lose_primary(self) -> None:
        """Kill it; the standby is the primary from here on, and waits for nobody."""
        self.primary.kill()
        self.standby.promote()
        self.primary, lost = self.standby, self.primary
        shutil.rmtree(lost.folder)

    def bring_standby(self) -> None:
        """Replace the one that was lost."""
        self.standby = self._follow()

    def close(self) -> None:
        for each in (self.primary, self.standby):
            each.kill()
        shutil.rmtree(self._folder)
