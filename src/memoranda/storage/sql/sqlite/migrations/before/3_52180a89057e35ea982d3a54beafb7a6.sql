-- Builds of 16 November 2026, before owners had rules of their own.
ALTER TABLE tenant ADD COLUMN rules BLOB NOT NULL DEFAULT x'';
DROP INDEX state_listed;
CREATE INDEX state_listed ON state (tenant_id, space, updated_ms, version_id, live, expires_ms, visibility, kind);
