-- When an API key expires and was last used, which key it replaces, and its own limits (JSON). Expand only: a server of
-- the version before reads and writes the same rows.
ALTER TABLE api_key ADD COLUMN expires_ms INTEGER;
-- Written from time to time, so it may be some seconds old.
ALTER TABLE api_key ADD COLUMN used_ms INTEGER;
ALTER TABLE api_key ADD COLUMN replaces TEXT;
ALTER TABLE api_key ADD COLUMN limits BLOB;
