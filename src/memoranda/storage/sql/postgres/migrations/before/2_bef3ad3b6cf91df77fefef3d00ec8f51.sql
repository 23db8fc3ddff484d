-- Builds of 16 November 2026, before a transaction of a tenant read how often keys were destroyed.
CREATE POLICY of_any_tenant ON key_ring FOR SELECT
  USING ((SELECT nullif(current_setting('memoranda.tenant', true), '')) IS NOT NULL);
