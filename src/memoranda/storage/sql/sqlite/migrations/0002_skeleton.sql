-- What is left of an erased version. Apart from it, because the row of the version must keep its size: then SQLite
-- overwrites it where it stands. A row that shrinks or grows makes SQLite move its neighbours to other pages, and
-- stale copies of them remain that a later hard forget cannot reach.
CREATE TABLE skeleton (
  tenant_id  INTEGER NOT NULL,
  version_id INTEGER NOT NULL,
  native     BLOB NOT NULL,
  PRIMARY KEY (tenant_id, version_id)
) WITHOUT ROWID;
