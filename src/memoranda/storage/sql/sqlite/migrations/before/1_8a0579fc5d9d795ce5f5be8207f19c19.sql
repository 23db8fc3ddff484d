-- Builds of 16 November 2026, before the ends of chains were stored in a file of their own.
ALTER TABLE tenant ADD COLUMN unit_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenant ADD COLUMN append_seq INTEGER NOT NULL DEFAULT 0;
