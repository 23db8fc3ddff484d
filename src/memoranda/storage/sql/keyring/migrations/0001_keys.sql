-- Data keys, wrapped under a master key that is never here. Of one that was destroyed the name stays. Rings of builds
-- before 1.0 have this table and no number.
CREATE TABLE IF NOT EXISTS data_key (
  key_id         TEXT PRIMARY KEY,
  holder         BLOB NOT NULL,
  master_version INTEGER NOT NULL,
  salt           BLOB NOT NULL,
  wrapped        BLOB NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS data_key_holder ON data_key (holder);
