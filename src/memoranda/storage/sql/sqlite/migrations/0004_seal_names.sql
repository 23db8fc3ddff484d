-- kind: contract
-- From here on, erased versions, their tombstones and the audit log name projects in encrypted form only (crypto/names.py),
-- which earlier versions cannot read. The value is the progress with the rows from before (engine/sealing.py).
INSERT INTO meta (name, value) VALUES ('sealed_names', x'') ON CONFLICT (name) DO NOTHING;
