-- Items with row ids, so that their key is an index of its own: to compare a key that shares its row with a value, SQLite
-- reads the value, and a value may have a mebibyte. Dropped pages are overwritten (secure_delete).
CREATE TABLE item_with_rows (
  tenant_id INTEGER NOT NULL,
  kind      TEXT NOT NULL,
  name      TEXT NOT NULL,
  value     BLOB NOT NULL,
  PRIMARY KEY (tenant_id, kind, name)
);
INSERT INTO item_with_rows (tenant_id, kind, name, value)
  SELECT tenant_id, kind, name, value FROM item ORDER BY tenant_id, kind, name;
DROP TABLE item;
ALTER TABLE item_with_rows RENAME TO item;

-- Who has any of a kind: background work looks for that, whoever's it is.
CREATE INDEX item_kind ON item (kind, tenant_id);
