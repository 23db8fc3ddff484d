"""A simulated newer version: this one with further migrations, in this process or in a server of its own.

`python -m tests.storage.newer FOLDER serve …` is `memoranda serve …` with the migrations in FOLDER.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from memoranda.storage.engine import migrations
from memoranda.storage.sqlite import schema

_CACHED: Final = (
    migrations.load_migrations,
    migrations.load_predecessors,
    migrations.newest_number,
    migrations.required_number,
    migrations.layout,
    schema.expected_schema,
)
_FILL: Final = """-- kind: fill
UPDATE state SET label = kind WHERE (tenant_id, version_id) IN (
  SELECT tenant_id, version_id FROM state WHERE label IS NULL ORDER BY tenant_id, version_id LIMIT 20
);
"""
# A newer layout: a column that the version before does not know is added, filled, indexed, and at last required. The
# index that it replaces is removed.
NEWER: Final[Mapping[str, Mapping[str, str]]] = {
    "postgres": {
        "9001_add_label.sql": "ALTER TABLE state ADD COLUMN label TEXT;\n",
        "9002_fill_label.sql": _FILL,
        "9003_index_label.sql": "-- kind: index\n"
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS state_label ON state (tenant_id, label);\n",
        "9004_require_label.sql": "-- kind: contract\nALTER TABLE state ALTER COLUMN label SET DEFAULT '';\n"
        "UPDATE state SET label = kind WHERE label IS NULL;\nALTER TABLE state ALTER COLUMN label SET NOT NULL;\n"
        "DROP INDEX state_redacted;\n",
    },
    "sqlite": {
        "9001_add_label.sql": "ALTER TABLE state ADD COLUMN label TEXT;\n",
        "9002_fill_label.sql": _FILL,
        "9003_index_label.sql": "-- kind: index\nCREATE INDEX state_label ON state (tenant_id, label);\n",
        "9004_drop_index.sql": "-- kind: contract\nDROP INDEX state_redacted;\n",
    },
}


def write_newer(folder: Path, added: Mapping[str, Mapping[str, str]] = NEWER) -> Path:
    """Write the migrations of a newer version to a folder, and return it."""
    shutil.copytree(migrations.FOLDER, folder)
    for database, files in added.items():
        for name, sql in files.items():
            (folder / database / "migrations" / name).write_text(sql)
    return folder


def use(folder: Path) -> None:
    """Take the migrations of a folder from now on."""
    migrations.FOLDER = folder
    for function in _CACHED:
        function.cache_clear()


@contextmanager
def version_with(folder: Path) -> Iterator[None]:
    """Use the migrations of a folder inside the block."""
    before = migrations.FOLDER
    use(folder)
    try:
        yield
    finally:
        use(before)


if __name__ == "__main__":
    from memoranda.cli import main

    use(Path(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
