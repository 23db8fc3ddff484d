-- Builds of 16 November 2026, before a second model embedded texts that stand alone.
DROP INDEX vector_context;
CREATE INDEX vector_context ON vector (tenant_id, context_id) WHERE context_id > 0;
-- Segments of the word index had another encoding. They are built again after the upgrade.
DELETE FROM segment;
DELETE FROM segment_part;
DELETE FROM unindexed;
