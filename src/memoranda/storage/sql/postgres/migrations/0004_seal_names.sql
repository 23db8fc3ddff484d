-- kind: contract
-- From here on, erased versions, their tombstones and the audit log name projects in encrypted form only (crypto/names.py),
-- which earlier versions cannot read. The value is the progress with the rows from before (engine/sealing.py).
SELECT set_config('memoranda.system', 'on', true);
INSERT INTO meta (name, value) VALUES ('sealed_names', ''::bytea) ON CONFLICT (name) DO NOTHING;
