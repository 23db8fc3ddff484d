-- Named queries, the same as for SQLite. `-- name: x` starts a query, `-- fragment: x` a fragment that other queries
-- include as `{{x}}`.

-- Look up listed versions one by one: OFFSET 0 keeps the planner from reversing the join, with any statistics or none.
-- The join compares a column, never an expression: before the row-level policy is checked, PostgreSQL calls only
-- leakproof functions, and for any other function it would read all rows of the tenant.
-- fragment: state_listed
CROSS JOIN LATERAL (SELECT * FROM state s WHERE s.tenant_id = :tenant_id AND s.version_id = j.value OFFSET 0) s

-- The state of versions in the change feed, looked up one by one, too.
-- fragment: state_changed
CROSS JOIN LATERAL (SELECT * FROM state s WHERE s.tenant_id = :tenant_id AND s.version_id = c.version_id OFFSET 0) s

-- fragment: version_listed
CROSS JOIN LATERAL (SELECT * FROM version v WHERE v.tenant_id = :tenant_id AND v.version_id = j.value OFFSET 0) v

-- fragment: tenant_columns
tenant_id, change_seq, audit_seq, audit_hash, version_count, term_count, live_count, byte_count,
  erasure_seq, segment_seq, closing_seq, unit_seq, append_seq, rules, (SELECT changes FROM key_ring)

-- Let this transaction see the rows of the tenant, whose number is known only now (0001_store.sql).
-- fragment: tenant_shown
set_config('memoranda.tenant_id', tenant_id::text, true) IS NOT NULL

-- A record that was merged keeps its name, which then stands for a later version: a successor has the name of its document.
-- fragment: version_columns
v.version_id, s.memory_id, v.standard, v.media_type, v.name,
CASE s.erased WHEN 0 THEN v.native ELSE (
  SELECT k.native FROM tombstone k WHERE k.tenant_id = s.tenant_id AND k.version_id = s.version_id) END,
CASE s.erased WHEN 0 THEN v.cause END, CASE s.erased WHEN 0 THEN v.bounds END,
s.status, s.valid_from_ms, s.valid_to_ms, s.declared_to_ms, s.recorded_ms, s.closed_ms, s.retired_ms,
s.tombstoned_ms, s.expires_ms, s.erased,
(SELECT n.name FROM version n WHERE n.version_id = s.superseded_by AND n.tenant_id = s.tenant_id),
s.followed, s.overridden, s.ignored, s.contradicted, s.observed_ms,
s.held, s.review, s.verification, CASE s.erased WHEN 0 THEN v.key_id END,
CASE WHEN s.superseded_by IS NOT NULL THEN (SELECT json_object_agg(n.standard, n.name)::text FROM (
  SELECT a.standard, a.name FROM alias a WHERE a.tenant_id = s.tenant_id AND a.version_id = s.superseded_by
  UNION SELECT o.standard, o.name FROM version o
  WHERE o.tenant_id = s.tenant_id AND o.version_id = s.superseded_by AND o.standard = 'ump') n) END,
v.seal, s.space, s.updated_ms,
CASE WHEN s.version_id <> s.memory_id THEN (
  SELECT n.name FROM alias n WHERE n.tenant_id = s.tenant_id AND n.standard = 'ump'
    AND n.version_id = coalesce((SELECT max(p.version_id) FROM state p
      WHERE p.tenant_id = s.tenant_id AND p.memory_id = s.memory_id AND p.version_id <> p.memory_id
        AND p.version_id < s.version_id AND p.retired_ms IS NULL), s.memory_id)) END

-- name: meta_get
SELECT value FROM meta WHERE name = :name

-- name: meta_put
INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: meta_claim
INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING

-- name: meta_count
INSERT INTO meta (name, value) VALUES ('system_seq', '1') ON CONFLICT (name)
DO UPDATE SET value = convert_to((convert_from(meta.value, 'UTF8')::bigint + 1)::text, 'UTF8')
RETURNING convert_from(value, 'UTF8')::bigint

-- name: meta_delete
DELETE FROM meta WHERE name = :name AND value = :value

-- name: meta_remove
DELETE FROM meta WHERE name = :name

-- name: meta_between
SELECT name, value FROM meta WHERE name > :after AND name < :before ORDER BY name LIMIT :limit

-- name: tenant_get
SELECT {{tenant_columns}} FROM tenant WHERE name = :name AND {{tenant_shown}}

-- Like tenant_get, for a unit of work: no other node begins one of the same tenant before this one is committed.
-- name: tenant_lock
SELECT {{tenant_columns}} FROM tenant WHERE name = :name AND {{tenant_shown}} FOR UPDATE

-- If another node was first, return and lock its row.
-- name: tenant_add
WITH added AS (
  INSERT INTO tenant (name) VALUES (:name) ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING *
)
SELECT {{tenant_columns}} FROM added WHERE {{tenant_shown}}

-- name: tenant_hold
SELECT tenant_id FROM tenant WHERE tenant_id = :tenant_id FOR UPDATE

-- name: tenant_put
UPDATE tenant SET change_seq = :change_seq, audit_seq = :audit_seq, audit_hash = :audit_hash,
  version_count = :version_count, term_count = :term_count, live_count = :live_count, byte_count = :byte_count,
  erasure_seq = :erasure_seq, segment_seq = :segment_seq, closing_seq = :closing_seq,
  unit_seq = :unit_seq, append_seq = :append_seq, rules = :rules
WHERE tenant_id = :tenant_id

-- name: tenant_list
SELECT name FROM tenant WHERE substr(name, 1, 1) <> chr(31) ORDER BY tenant_id

-- name: tenant_usage
SELECT name, live_count, append_seq, byte_count FROM tenant WHERE substr(name, 1, 1) <> chr(31) ORDER BY tenant_id

-- Deletion of a tenant. The names of tenants that are being deleted, or were, begin with a control character.
-- name: tenant_hide
UPDATE tenant SET name = :hidden, rules = ''::bytea, erasure_seq = erasure_seq + 1 WHERE name = :name RETURNING tenant_id

-- name: tenant_holds
SELECT count(*) FROM state WHERE tenant_id = (SELECT tenant_id FROM tenant WHERE name = :name) AND held = 1

-- name: tenant_hidden
SELECT tenant_id, unit_seq, append_seq FROM tenant WHERE name LIKE :prefix ORDER BY tenant_id LIMIT 1

-- name: tenant_clear
UPDATE tenant SET name = :name, change_seq = 0, audit_seq = 0, audit_hash = NULL, version_count = 0, term_count = 0,
  live_count = 0, byte_count = 0, erasure_seq = erasure_seq + 1, unit_seq = :unit_seq
WHERE tenant_id = :tenant_id

-- name: tenant_drop_keys
DELETE FROM api_key WHERE tenant = :name RETURNING key_id

-- name: tenant_drop_grants
DELETE FROM program_grant WHERE key_id IN (SELECT key_id FROM api_key WHERE tenant = :name)

-- name: tenant_drop_revocations
DELETE FROM revoked_token WHERE issuer = :name

-- name: tenant_data_keys
SELECT DISTINCT key_id FROM version WHERE tenant_id = :tenant_id AND key_id IS NOT NULL

-- name: tenant_drop_alias
DELETE FROM alias WHERE tenant_id = :tenant_id AND name IN
  (SELECT name FROM alias WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_state
DELETE FROM state WHERE tenant_id = :tenant_id AND version_id IN
  (SELECT version_id FROM state WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_facet
DELETE FROM facet WHERE tenant_id = :tenant_id AND version_id IN
  (SELECT version_id FROM facet WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_measure
DELETE FROM measure WHERE tenant_id = :tenant_id AND version_id IN
  (SELECT version_id FROM measure WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_item
DELETE FROM item WHERE tenant_id = :tenant_id AND name IN
  (SELECT name FROM item WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_run_event
DELETE FROM run_event WHERE tenant_id = :tenant_id AND run_id IN
  (SELECT run_id FROM run_event WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_run_write
DELETE FROM run_write WHERE tenant_id = :tenant_id AND run_id IN
  (SELECT run_id FROM run_write WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_run
DELETE FROM run WHERE tenant_id = :tenant_id AND run_id IN
  (SELECT run_id FROM run WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_commitment
DELETE FROM commitment WHERE tenant_id = :tenant_id AND commitment_id IN
  (SELECT commitment_id FROM commitment WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_use
DELETE FROM use WHERE tenant_id = :tenant_id AND name_key IN
  (SELECT name_key FROM use WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_feedback
DELETE FROM feedback WHERE tenant_id = :tenant_id AND version_id IN
  (SELECT version_id FROM feedback WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_change
DELETE FROM change WHERE tenant_id = :tenant_id AND seq IN
  (SELECT seq FROM change WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_audit
DELETE FROM audit WHERE tenant_id = :tenant_id AND seq IN
  (SELECT seq FROM audit WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_segment_part
DELETE FROM segment_part WHERE tenant_id = :tenant_id AND first_version IN
  (SELECT first_version FROM segment_part WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_segment
DELETE FROM segment WHERE tenant_id = :tenant_id AND first_version IN
  (SELECT first_version FROM segment WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_unindexed
DELETE FROM unindexed WHERE tenant_id = :tenant_id AND version_id IN
  (SELECT version_id FROM unindexed WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_vector
DELETE FROM vector WHERE tenant_id = :tenant_id AND place IN
  (SELECT place FROM vector WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_tombstone
DELETE FROM tombstone WHERE tenant_id = :tenant_id AND version_id IN
  (SELECT version_id FROM tombstone WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: tenant_drop_version
DELETE FROM version WHERE tenant_id = :tenant_id AND version_id IN
  (SELECT version_id FROM version WHERE tenant_id = :tenant_id LIMIT :limit) RETURNING 1

-- name: version_last_recorded
SELECT coalesce((SELECT recorded_ms FROM version ORDER BY version_id DESC LIMIT 1), 0)

-- name: tenant_has_key
SELECT 1 FROM api_key
WHERE tenant = :name AND revoked_ms IS NULL AND (expires_ms IS NULL OR expires_ms > :now_ms) LIMIT 1

-- name: tenants_naming
SELECT t.name FROM tenant t CROSS JOIN LATERAL (
  SELECT 1 FROM alias a WHERE a.tenant_id = t.tenant_id AND a.standard = :standard AND a.name = :name OFFSET 0) a
ORDER BY t.tenant_id

-- name: tenants_showing
SELECT t.name FROM alias a JOIN tenant t ON t.tenant_id = a.tenant_id
WHERE a.public = 1 AND a.standard = :standard AND a.name = :name
ORDER BY a.tenant_id

-- name: version_is_public
SELECT visibility <> 'private' FROM state WHERE tenant_id = :tenant_id AND version_id = :version_id

-- name: version_add
INSERT INTO version (version_id, tenant_id, standard, media_type, name, recorded_ms, key_id, seal, native, cause, bounds)
VALUES (:version_id, :tenant_id, :standard, :media_type, :name, :recorded_ms, :key_id, :seal, :native, :cause, :bounds)

-- name: state_add
INSERT INTO state (tenant_id, version_id, memory_id, space, kind, visibility, status, user_key, agent_key,
  session_key, sameness_key, subject_key, relation_key, object_key, observed_ms, updated_ms, valid_from_ms,
  declared_to_ms, valid_to_ms, recorded_ms, expires_ms, exportable, redacted, term_count, address, form, at_ms, confidence,
  importance, live, closing)
VALUES (:tenant_id, :version_id, :memory_id, :space, :kind, :visibility, :status, :user_key, :agent_key,
  :session_key, :sameness_key, :subject_key, :relation_key, :object_key, :observed_ms, :updated_ms, :valid_from_ms,
  :valid_to_ms, :valid_to_ms, :recorded_ms, :expires_ms, :exportable, :redacted, :term_count, :address, :form, :at_ms, :confidence,
  :importance, (:status <> 'tombstoned')::int, :closing)

-- name: facet_add
INSERT INTO facet (tenant_id, name, value_key, version_id) VALUES (:tenant_id, :name, :value_key, :version_id)
ON CONFLICT DO NOTHING

-- name: measure_add
INSERT INTO measure (tenant_id, name, number, version_id) VALUES (:tenant_id, :name, :number, :version_id)
ON CONFLICT DO NOTHING

-- name: measure_remove
DELETE FROM measure WHERE tenant_id = :tenant_id AND version_id = :version_id

-- name: last_version
SELECT coalesce(max(version_id), 0) FROM state WHERE tenant_id = :tenant_id

-- name: memory_updated
SELECT max(updated_ms) FROM (
  SELECT f.updated_ms FROM state f WHERE f.tenant_id = :tenant_id AND f.version_id = :memory_id
  UNION ALL SELECT s.updated_ms FROM state s
  WHERE s.tenant_id = :tenant_id AND s.memory_id = :memory_id AND s.version_id <> s.memory_id) u

-- name: state_counted
SELECT s.live, s.erased, length(v.native), v.key_id IS NOT NULL, s.term_count
FROM state s JOIN version v ON v.version_id = s.version_id AND v.tenant_id = s.tenant_id
WHERE s.tenant_id = :tenant_id AND s.version_id = :version_id

-- name: has_space
SELECT 1 FROM state s WHERE s.tenant_id = :tenant_id AND s.space = :space LIMIT 1

-- name: spaces
WITH RECURSIVE found (space) AS (
  SELECT min(space) FROM state WHERE tenant_id = :tenant_id
  UNION ALL
  SELECT (SELECT min(s.space) FROM state s
    WHERE s.tenant_id = :tenant_id AND s.space > found.space)
  FROM found WHERE found.space IS NOT NULL
)
SELECT space FROM found WHERE space IS NOT NULL

-- name: tally
-- Count the versions true now, by space and kind: the live versions without the few outside their valid time, and the
-- superseded versions whose valid time has not ended yet.
SELECT t.space, t.kind, CAST(sum(t.number) AS INTEGER) FROM (
  SELECT g.space AS space, k.kind AS kind, CASE k.kind WHEN 'semantic' THEN g.semantic WHEN 'episodic' THEN g.episodic
    WHEN 'procedural' THEN g.procedural WHEN 'working' THEN g.working ELSE g.identity END AS number
  FROM (
    SELECT s.space AS space,
      sum(CASE WHEN s.kind = 'semantic' THEN 1 ELSE 0 END) AS semantic,
      sum(CASE WHEN s.kind = 'episodic' THEN 1 ELSE 0 END) AS episodic,
      sum(CASE WHEN s.kind = 'procedural' THEN 1 ELSE 0 END) AS procedural,
      sum(CASE WHEN s.kind = 'working' THEN 1 ELSE 0 END) AS working,
      sum(CASE WHEN s.kind = 'identity' THEN 1 ELSE 0 END) AS identity
    FROM state s
    WHERE s.tenant_id = :tenant_id AND s.live = 1 AND coalesce(s.expires_ms, 4611686018427387904) > :now
      AND s.version_id NOT IN (
        SELECT version_id FROM state WHERE tenant_id = :tenant_id AND live = 1 AND valid_to_ms <= :now
        UNION ALL
        SELECT version_id FROM state
        WHERE tenant_id = :tenant_id AND live = 1 AND valid_from_ms > recorded_ms AND valid_from_ms > :now)
    GROUP BY s.space) g
  CROSS JOIN (SELECT 'semantic' AS kind UNION ALL SELECT 'episodic' UNION ALL SELECT 'procedural'
    UNION ALL SELECT 'working' UNION ALL SELECT 'identity') k
  UNION ALL
  SELECT c.space, c.kind, 1 FROM state c
  WHERE c.tenant_id = :tenant_id AND c.live = 0 AND c.valid_to_ms > :now AND c.erased = 0 AND c.status <> 'tombstoned'
    AND coalesce(c.retired_ms, 4611686018427387904) > :now AND c.verification <> 'retracted' AND c.valid_from_ms <= :now
    AND coalesce(c.expires_ms, 4611686018427387904) > :now
    AND EXISTS (SELECT 1 FROM state h WHERE h.tenant_id = c.tenant_id AND h.version_id = coalesce((
        SELECT max(n.version_id) FROM state n
        WHERE n.tenant_id = c.tenant_id AND n.memory_id = c.memory_id AND n.version_id <> n.memory_id), c.memory_id)
      AND h.status <> 'tombstoned' AND coalesce(h.expires_ms, 4611686018427387904) > :now)) t
GROUP BY t.space, t.kind HAVING sum(t.number) > 0

-- name: uses_since
SELECT count(*) FROM use WHERE tenant_id = :tenant_id AND name_key = :name_key AND at_ms > :since_ms

-- name: use_before_last
SELECT at_ms FROM use WHERE tenant_id = :tenant_id AND name_key = :name_key AND at_ms > :since_ms
ORDER BY at_ms DESC, seq DESC LIMIT 1 OFFSET :skipped

-- name: uses_forget
DELETE FROM use WHERE tenant_id = :tenant_id AND name_key = :name_key AND at_ms <= :since_ms

-- name: uses_last
SELECT coalesce(max(seq), 0) FROM use WHERE tenant_id = :tenant_id AND name_key = :name_key AND at_ms = :at_ms

-- name: uses_add
INSERT INTO use (tenant_id, name_key, at_ms, seq) VALUES (:tenant_id, :name_key, :at_ms, :seq)

-- name: run_put
INSERT INTO run (tenant_id, run_id, started_ms, document) VALUES (:tenant_id, :run_id, :started_ms, :document)
ON CONFLICT (tenant_id, run_id) DO UPDATE SET document = excluded.document

-- name: run_get
SELECT document FROM run WHERE tenant_id = :tenant_id AND run_id = :run_id

-- name: runs_before
SELECT document FROM run
WHERE tenant_id = :tenant_id AND (started_ms, run_id) < (:before_ms, :before_run)
ORDER BY started_ms DESC, run_id DESC LIMIT :limit

-- name: runs_after
SELECT started_ms, run_id FROM run
WHERE tenant_id = :tenant_id AND (started_ms, run_id) > (:after_ms, :after_run) AND started_ms < :before_ms
ORDER BY started_ms, run_id LIMIT :limit

-- name: run_delete
DELETE FROM run WHERE tenant_id = :tenant_id AND run_id = :run_id RETURNING length(document)

-- name: run_size
SELECT length(document) FROM run WHERE tenant_id = :tenant_id AND run_id = :run_id

-- name: run_events_delete
DELETE FROM run_event WHERE tenant_id = :tenant_id AND run_id = :run_id RETURNING length(event)

-- name: run_writes_delete
DELETE FROM run_write WHERE tenant_id = :tenant_id AND run_id = :run_id

-- name: run_event_add
INSERT INTO run_event (tenant_id, run_id, sequence, event, place)
VALUES (:tenant_id, :run_id, :sequence, :event,
  (SELECT 1 + coalesce(max(place), 0) FROM run_event WHERE tenant_id = :tenant_id))

-- name: run_event_last
SELECT place, run_id FROM run_event WHERE tenant_id = :tenant_id ORDER BY place DESC LIMIT 1

-- name: run_events_after
SELECT place, event FROM run_event
WHERE tenant_id = :tenant_id AND place > :after ORDER BY place LIMIT :limit

-- name: run_event_count
SELECT 1 + coalesce(max(sequence), -1) FROM run_event WHERE tenant_id = :tenant_id AND run_id = :run_id

-- name: run_events
SELECT event FROM run_event
WHERE tenant_id = :tenant_id AND run_id = :run_id AND sequence > :after ORDER BY sequence LIMIT :limit

-- name: run_write_add
INSERT INTO run_write (tenant_id, run_id, version_id) VALUES (:tenant_id, :run_id, :version_id) ON CONFLICT DO NOTHING

-- name: run_writes
SELECT version_id FROM run_write WHERE tenant_id = :tenant_id AND run_id = :run_id

-- name: run_lost_writes
SELECT 1 FROM run_write c
{{state_changed}}
WHERE c.tenant_id = :tenant_id AND c.run_id = :run_id AND s.erased = 1 LIMIT 1

-- name: run_writes_copy
INSERT INTO run_write (tenant_id, run_id, version_id)
SELECT tenant_id, :to_run, version_id FROM run_write WHERE tenant_id = :tenant_id AND run_id = :run_id

-- name: changed_memories
SELECT DISTINCT s.memory_id FROM change c
{{state_changed}}
WHERE c.tenant_id = :tenant_id AND c.seq > :after

-- name: changed_in_space
SELECT DISTINCT c.version_id FROM change c
{{state_changed}}
WHERE c.tenant_id = :tenant_id AND c.seq > :after AND s.space IN (:space, :sealed_space)
ORDER BY c.version_id

-- name: ended_since
-- Versions that existed at a position of the feed and have ended since: the last one of each memory, last updated first.
WITH m (memory_id) AS (
  SELECT DISTINCT s.memory_id FROM change c
  {{state_changed}}
  WHERE c.tenant_id = :tenant_id AND c.seq > :after AND c.type <> 'created' AND s.space IN (:space, :sealed_space)
), v (memory_id, version_id) AS (
  SELECT memory_id, memory_id FROM m
  UNION ALL SELECT m.memory_id, h.version_id FROM m CROSS JOIN LATERAL (
    SELECT h.version_id FROM state h
    WHERE h.tenant_id = :tenant_id AND h.memory_id = m.memory_id AND h.version_id <> h.memory_id OFFSET 0) h
)
SELECT l.version_id, l.updated_ms FROM (
  SELECT DISTINCT ON (v.memory_id) o.version_id, o.updated_ms, o.superseded_by, o.tombstoned_ms
  FROM v CROSS JOIN LATERAL (
    SELECT * FROM state o WHERE o.tenant_id = :tenant_id AND o.version_id = v.version_id OFFSET 0) o
  WHERE o.erased = 0 AND (o.version_id <= :version_seq AND least(coalesce(o.closed_ms, :forever_ms),
      coalesce(o.tombstoned_ms, :forever_ms), coalesce(o.retired_ms, :forever_ms)) >= :at_ms
    OR EXISTS (SELECT 1 FROM run_write w
      WHERE w.tenant_id = :tenant_id AND w.run_id = :run_id AND w.version_id = o.version_id))
  ORDER BY v.memory_id, o.version_id DESC
) l
WHERE l.superseded_by IS NOT NULL OR l.tombstoned_ms IS NOT NULL
ORDER BY l.updated_ms DESC, l.version_id DESC

-- name: commitment_put
INSERT INTO commitment (tenant_id, commitment_id, space, due_ms, waiting, fresh, over_ms, document)
VALUES (:tenant_id, :commitment_id, :space, :due_ms, :waiting, :fresh, :over_ms, :document)
ON CONFLICT (tenant_id, commitment_id) DO UPDATE SET due_ms = excluded.due_ms, waiting = excluded.waiting,
  fresh = excluded.fresh, over_ms = excluded.over_ms, document = excluded.document

-- name: commitment_get
SELECT document FROM commitment WHERE tenant_id = :tenant_id AND commitment_id = :commitment_id

-- name: commitments
SELECT document FROM commitment WHERE tenant_id = :tenant_id ORDER BY commitment_id

-- name: commitments_in_space
SELECT document FROM commitment
WHERE tenant_id = :tenant_id AND space = :space ORDER BY commitment_id

-- name: commitments_due
SELECT document FROM commitment
WHERE tenant_id = :tenant_id AND waiting = 0 AND over_ms IS NULL AND due_ms <= :now_ms ORDER BY due_ms LIMIT :limit

-- name: commitments_waiting
SELECT document, space, fresh FROM commitment
WHERE tenant_id = :tenant_id AND waiting = 1 AND over_ms IS NULL AND (fresh = 1 OR :fresh_only = 0)
  AND coalesce(due_ms, :now_ms) <= :now_ms

-- name: commitment_looked_at
UPDATE commitment SET fresh = 0 WHERE tenant_id = :tenant_id AND commitment_id = :commitment_id AND document = :document

-- name: commitments_over
SELECT 1 FROM commitment
WHERE tenant_id = :tenant_id AND over_ms IS NOT NULL AND over_ms < :before_ms LIMIT 1

-- name: commitments_prune
DELETE FROM commitment WHERE tenant_id = :tenant_id AND commitment_id IN (
  SELECT commitment_id FROM commitment
  WHERE tenant_id = :tenant_id AND over_ms IS NOT NULL AND over_ms < :before_ms LIMIT :limit)

-- name: next_due
SELECT min(due_ms) FROM commitment WHERE due_ms IS NOT NULL AND over_ms IS NULL

-- name: tenants_with_commitments
SELECT t.name FROM (
  SELECT tenant_id FROM commitment
  WHERE due_ms <= :now_ms AND over_ms IS NULL
  UNION SELECT tenant_id FROM commitment WHERE waiting = 1 AND over_ms IS NULL
) f JOIN tenant t ON t.tenant_id = f.tenant_id ORDER BY t.tenant_id

-- name: tenants_with_items
SELECT t.name FROM (
  SELECT DISTINCT n.tenant_id FROM listed(:kinds) k CROSS JOIN LATERAL (
    SELECT n.tenant_id FROM item n WHERE n.kind = k.value OFFSET 0) n
) f JOIN tenant t ON t.tenant_id = f.tenant_id ORDER BY t.tenant_id

-- name: item_delete
DELETE FROM item WHERE tenant_id = :tenant_id AND kind = :kind AND name = :name RETURNING length(value)

-- name: items_prune
DELETE FROM item WHERE tenant_id = :tenant_id AND kind = :kind AND name < :before RETURNING length(value)

-- name: item_size
SELECT length(value) FROM item WHERE tenant_id = :tenant_id AND kind = :kind AND name = :name

-- name: item_put
INSERT INTO item (tenant_id, kind, name, value) VALUES (:tenant_id, :kind, :name, :value)
ON CONFLICT (tenant_id, kind, name) DO UPDATE SET value = excluded.value

-- name: item_get
SELECT value FROM item WHERE tenant_id = :tenant_id AND kind = :kind AND name = :name

-- name: items_page
SELECT kind, name, value FROM item WHERE tenant_id = :tenant_id ORDER BY kind, name LIMIT :limit OFFSET :offset

-- name: items_get
SELECT name, value FROM item WHERE tenant_id = :tenant_id AND kind = :kind ORDER BY name

-- name: names_starting
SELECT a.name, a.version_id FROM alias a
WHERE a.tenant_id = :tenant_id AND a.standard = :standard AND a.name >= :prefix AND a.name < :prefix || '~'
  AND a.version_id IS NOT NULL
ORDER BY a.name LIMIT :limit

-- name: documents_by_id
SELECT v.version_id, v.standard, v.name, v.native, v.key_id, v.recorded_ms, v.seal
FROM listed_numbers(:version_ids) j
{{version_listed}}

-- name: kept_by_id
SELECT s.version_id, s.address, s.verification, s.superseded_by IS NOT NULL, s.closed_ms
FROM listed_numbers(:version_ids) j
{{state_listed}} WHERE s.erased = 0

-- name: state_hold
UPDATE state SET held = :held WHERE tenant_id = :tenant_id AND version_id = :version_id

-- name: state_review
UPDATE state SET review = :review WHERE tenant_id = :tenant_id AND version_id = :version_id

-- name: state_verification
UPDATE state SET verification = :verification, closing = :closing,
  live = (:verification <> 'retracted' AND erased = 0 AND retired_ms IS NULL AND status <> 'tombstoned'
    AND superseded_by IS NULL AND closed_ms IS NULL)::int
WHERE tenant_id = :tenant_id AND version_id = :version_id
RETURNING live

-- name: versions_linked
SELECT {{version_columns}}
FROM (
  SELECT f.version_id AS value FROM facet f
  WHERE f.tenant_id = :tenant_id AND f.name = :link AND f.value_key = :name_key AND f.version_id > :after
  ORDER BY f.version_id OFFSET 0) j
{{state_listed}}
{{version_listed}}
WHERE s.erased = 0
ORDER BY j.value LIMIT :limit

-- name: facet_remove
DELETE FROM facet WHERE tenant_id = :tenant_id AND version_id = :version_id

-- name: alias_put
INSERT INTO alias (tenant_id, standard, name, memory_id, version_id, public)
VALUES (:tenant_id, :standard, :name, :memory_id, :version_id, :public)
ON CONFLICT (tenant_id, standard, name)
DO UPDATE SET memory_id = excluded.memory_id, version_id = excluded.version_id, public = greatest(alias.public, excluded.public)

-- A name keeps its version, unless that version was erased, or was forgotten and the identical document is written again.
-- name: view_name_put
INSERT INTO alias (tenant_id, standard, name, memory_id, version_id, public)
VALUES (:tenant_id, :standard, :name, :memory_id, :version_id, :public)
ON CONFLICT (tenant_id, standard, name)
DO UPDATE SET memory_id = excluded.memory_id, version_id = excluded.version_id, public = greatest(alias.public, excluded.public)
WHERE EXISTS (SELECT 1 FROM (SELECT coalesce(alias.version_id, alias.memory_id) AS value OFFSET 0) j
  {{state_listed}}
  {{version_listed}}
  JOIN version b ON b.tenant_id = :tenant_id AND b.version_id = excluded.version_id
  WHERE s.erased = 1 OR s.tombstoned_ms IS NOT NULL AND v.standard = b.standard AND v.name = b.name
    AND v.media_type = b.media_type AND coalesce(substr(v.seal, 1, 16) = substr(b.seal, 1, 16), v.native = b.native))

-- name: facts_known
SELECT j.key FROM (SELECT key, decode(value, 'hex') AS value FROM listed(:keys) OFFSET 0) j CROSS JOIN LATERAL (
  SELECT 1 FROM state s
  WHERE s.tenant_id = :tenant_id AND s.sameness_key = j.value
    AND s.retired_ms IS NULL AND s.superseded_by IS NULL AND s.status <> 'tombstoned' LIMIT 1) s

-- name: names_known
SELECT j.key FROM listed(:names) j CROSS JOIN LATERAL (
  SELECT 1 FROM alias a WHERE a.tenant_id = :tenant_id AND a.standard = :standard AND a.name = j.value OFFSET 0) a

-- name: names_of
SELECT standard, name FROM alias WHERE tenant_id = :tenant_id AND version_id = :version_id

-- name: names_before
SELECT a.standard, a.name FROM (
  SELECT :memory_id AS version_id
  UNION ALL SELECT h.version_id FROM state h
  WHERE h.tenant_id = :tenant_id AND h.memory_id = :memory_id AND h.version_id <> h.memory_id
    AND h.version_id < :version_id) s
CROSS JOIN LATERAL (
  SELECT standard, name FROM alias WHERE tenant_id = :tenant_id AND version_id = s.version_id
    AND standard IN ('ump', 'oms') OFFSET 0) a
ORDER BY s.version_id DESC, a.standard, a.name LIMIT :limit

-- name: version_named
SELECT {{version_columns}}
FROM (
  SELECT coalesce(a.version_id, (
    SELECT max(h.version_id) FROM state h
    WHERE h.tenant_id = :tenant_id AND h.memory_id = a.memory_id AND h.version_id <> h.memory_id), a.memory_id) AS value
  FROM alias a WHERE a.tenant_id = :tenant_id AND a.standard = :standard AND a.name = :name OFFSET 0) j
{{state_listed}}
{{version_listed}}

-- name: versions_by_id
SELECT {{version_columns}}
FROM listed_numbers(:version_ids) j
{{state_listed}}
{{version_listed}}
ORDER BY j.key

-- name: version_sizes
SELECT j.value, length(v.native)
FROM listed_numbers(:version_ids) j
{{version_listed}}
ORDER BY j.key

-- name: versions_of_memory
SELECT s.version_id
FROM (
  SELECT :memory_id AS value
  UNION ALL SELECT h.version_id FROM state h
  WHERE h.tenant_id = :tenant_id AND h.memory_id = :memory_id AND h.version_id <> h.memory_id OFFSET 0) j
{{state_listed}}
WHERE s.memory_id = :memory_id
ORDER BY s.version_id

-- Of earlier versions, the last version of their memory, where that is another one.
-- name: line_heads
SELECT p.value, h.version_id, h.tombstoned_ms, h.expires_ms
FROM (
  SELECT j.value, coalesce((
    SELECT max(n.version_id) FROM state n
    WHERE n.tenant_id = :tenant_id AND n.memory_id = s.memory_id AND n.version_id <> n.memory_id), s.memory_id) AS head_id
  FROM listed_numbers(:version_ids) j
  {{state_listed}} OFFSET 0) p
JOIN state h ON h.tenant_id = :tenant_id AND h.version_id = p.head_id
WHERE p.head_id <> p.value

-- The version that superseded each, and the next one of its memory.
-- name: version_successors
SELECT j.value, s.superseded_by, (
  SELECT min(n.version_id) FROM state n
  WHERE n.tenant_id = :tenant_id AND n.memory_id = s.memory_id AND n.version_id > s.version_id AND n.version_id <> n.memory_id)
FROM listed_numbers(:version_ids) j
{{state_listed}}

-- name: version_same
SELECT {{version_columns}}
FROM state s
JOIN version v ON v.version_id = s.version_id AND v.tenant_id = s.tenant_id
WHERE s.tenant_id = :tenant_id AND s.sameness_key = :sameness_key
  AND s.retired_ms IS NULL AND s.superseded_by IS NULL AND s.status <> 'tombstoned'
  AND coalesce(s.valid_to_ms, :forever_ms) > :now_ms AND coalesce(s.expires_ms, :forever_ms) > :now_ms
ORDER BY s.version_id LIMIT 1

-- Test for a duplicate before any document is read: nearly every new memory has neither.
-- name: is_same_or_named
SELECT EXISTS (
  SELECT 1 FROM state s WHERE s.tenant_id = :tenant_id AND s.sameness_key = :sameness_key
    AND s.retired_ms IS NULL AND s.superseded_by IS NULL AND s.status <> 'tombstoned'),
  EXISTS (SELECT 1 FROM alias a WHERE a.tenant_id = :tenant_id AND a.standard = :standard AND a.name = :name)

-- name: segments_of
SELECT first_version, edition, docs, analysis FROM segment WHERE tenant_id = :tenant_id ORDER BY first_version

-- name: segments_between
SELECT docs, data FROM segment
WHERE tenant_id = :tenant_id AND first_version BETWEEN :first_version AND :last_version ORDER BY first_version

-- name: segment_parts
SELECT data FROM segment_part
WHERE tenant_id = :tenant_id AND first_version = :first_version AND edition = :edition ORDER BY number

-- name: segment_firsts
SELECT firsts FROM segment
WHERE tenant_id = :tenant_id AND first_version = :first_version AND edition = :edition

-- name: segment_part
SELECT data FROM segment_part
WHERE tenant_id = :tenant_id AND first_version = :first_version AND edition = :edition AND number = :number

-- name: segment_add
INSERT INTO segment (tenant_id, first_version, edition, docs, analysis, firsts, data)
VALUES (:tenant_id, :first_version, :edition, :docs, :analysis, :firsts, :data)

-- name: segment_part_add
INSERT INTO segment_part (tenant_id, first_version, edition, number, data)
VALUES (:tenant_id, :first_version, :edition, :number, :data)

-- name: segments_remove
DELETE FROM segment WHERE tenant_id = :tenant_id AND first_version BETWEEN :first_version AND :last_version

-- name: segments_parts_remove
DELETE FROM segment_part WHERE tenant_id = :tenant_id AND first_version BETWEEN :first_version AND :last_version

-- The columns of versions that the word index repeats besides their terms; verification compares them.
-- name: index_rows
SELECT version_id, space, user_key, agent_key, session_key, observed_ms, visibility, redacted,
  expires_ms IS NULL AND declared_to_ms IS NULL AND valid_from_ms <= observed_ms,
  expires_ms IS NOT NULL, valid_from_ms, declared_to_ms
FROM state
WHERE tenant_id = :tenant_id AND version_id >= :first AND version_id < :end AND erased = 0 ORDER BY version_id

-- name: index_rows_some
SELECT version_id FROM state
WHERE tenant_id = :tenant_id AND version_id >= :first AND version_id < :end AND erased = 0
ORDER BY version_id LIMIT :limit

-- name: index_state
SELECT s.version_id, s.space, s.kind, s.visibility, s.user_key, s.agent_key, s.session_key, s.sameness_key, s.exportable,
  s.redacted, s.address, s.form, s.at_ms, s.confidence, s.importance, s.subject_key, s.relation_key, s.object_key
FROM listed_numbers(:version_ids) j {{state_listed}}

-- name: index_facets
SELECT f.version_id, f.name, f.value_key
FROM listed_numbers(:version_ids) j CROSS JOIN LATERAL (
  SELECT * FROM facet f WHERE f.tenant_id = :tenant_id AND f.version_id = j.value OFFSET 0) f

-- name: index_measures
SELECT m.version_id, m.name, m.number
FROM listed_numbers(:version_ids) j CROSS JOIN LATERAL (
  SELECT * FROM measure m WHERE m.tenant_id = :tenant_id AND m.version_id = j.value OFFSET 0) m

-- name: index_names
SELECT a.standard, a.name
FROM (SELECT value::jsonb ->> 0 AS standard, value::jsonb ->> 1 AS name FROM listed(:names) OFFSET 0) j
CROSS JOIN LATERAL (
  SELECT * FROM alias a WHERE a.tenant_id = :tenant_id AND a.standard = j.standard AND a.name = j.name OFFSET 0) a

-- name: index_orphans
SELECT count(*) FROM (
  SELECT c.version_id FROM facet c WHERE c.tenant_id = :tenant_id
  UNION ALL SELECT c.version_id FROM measure c WHERE c.tenant_id = :tenant_id
  UNION ALL SELECT c.version_id FROM vector c WHERE c.tenant_id = :tenant_id AND c.version_id > 0) c
LEFT JOIN LATERAL (
  SELECT s.erased FROM state s WHERE s.tenant_id = :tenant_id AND s.version_id = c.version_id OFFSET 0) s ON true
WHERE coalesce(s.erased, 1) = 1

-- Count documents without a state, and states without a document.
-- name: halves
SELECT count(*) FILTER (WHERE has_document), count(*) FILTER (WHERE NOT has_document) FROM (
  SELECT true AS has_document FROM version c LEFT JOIN LATERAL (
    SELECT s.version_id FROM state s WHERE s.tenant_id = :tenant_id AND s.version_id = c.version_id OFFSET 0) o ON true
  WHERE c.tenant_id = :tenant_id AND o.version_id IS NULL
  UNION ALL SELECT false FROM state c LEFT JOIN LATERAL (
    SELECT v.version_id FROM version v WHERE v.tenant_id = :tenant_id AND v.version_id = c.version_id OFFSET 0) o ON true
  WHERE c.tenant_id = :tenant_id AND o.version_id IS NULL) c

-- name: unindexed_of
SELECT version_id FROM unindexed WHERE tenant_id = :tenant_id ORDER BY version_id

-- name: unindexed_add
INSERT INTO unindexed (tenant_id, version_id) VALUES (:tenant_id, :version_id) ON CONFLICT DO NOTHING

-- name: unindexed_next
SELECT tenant_id, version_id FROM unindexed
WHERE tenant_id = (SELECT min(tenant_id) FROM unindexed) ORDER BY version_id LIMIT :limit

-- name: unindexed_remove
DELETE FROM unindexed WHERE tenant_id = :tenant_id AND version_id IN (SELECT j.value FROM listed_numbers(:version_ids) j)

-- name: closed_versions
SELECT version_id, CASE
  WHEN erased = 1 OR retired_ms IS NOT NULL OR status = 'tombstoned' THEN 0 ELSE coalesce(valid_to_ms, :forever_ms) END
FROM state WHERE tenant_id = :tenant_id AND live = 0

-- Like closed_versions, for versions closed or reopened since a closing number, with the flag `live`.
-- name: closings_after
SELECT version_id, CASE
  WHEN erased = 1 OR retired_ms IS NOT NULL OR status = 'tombstoned' THEN 0 ELSE coalesce(valid_to_ms, :forever_ms) END, live
FROM state WHERE tenant_id = :tenant_id AND closing > 0 AND closing > :after

-- name: state_close
UPDATE state SET live = 0, closing = :closing, superseded_by = :successor_id, closed_ms = :now_ms, valid_to_ms = :valid_to_ms
WHERE tenant_id = :tenant_id AND version_id = :version_id

-- name: versions_protecting
SELECT j.value FROM listed_numbers(:version_ids) j
{{state_listed}}
WHERE s.held = 1 OR EXISTS (
  SELECT 1 FROM facet f
  WHERE f.tenant_id = :tenant_id AND f.name = :name AND f.value_key = :value_key AND f.version_id = j.value)
ORDER BY j.key

-- name: count_live
SELECT count(*) FROM listed_numbers(:version_ids) j
{{state_listed}} WHERE s.live = 1

-- name: count_free
SELECT count(*) FROM listed_numbers(:version_ids) j
{{state_listed}} WHERE s.live = 1 AND s.held = 0

-- name: superseded_by
SELECT s.version_id, s.retired_ms IS NULL AND s.status <> 'tombstoned' AND s.verification <> 'retracted'
FROM (
  SELECT (value::jsonb ->> 0)::bigint AS value, (value::jsonb ->> 1)::bigint AS successor FROM listed(:pairs) OFFSET 0) j
{{state_listed}}
WHERE s.superseded_by = j.successor AND s.erased = 0

-- name: version_ids_named
SELECT a.name, coalesce(a.version_id, a.memory_id) FROM listed(:names) j CROSS JOIN LATERAL (
  SELECT * FROM alias a WHERE a.tenant_id = :tenant_id AND a.standard = :standard AND a.name = j.value OFFSET 0) a

-- name: state_reopen
UPDATE state SET superseded_by = NULL, closed_ms = NULL, valid_to_ms = declared_to_ms, closing = :closing,
  live = (erased = 0 AND retired_ms IS NULL AND status <> 'tombstoned' AND verification <> 'retracted')::int
WHERE tenant_id = :tenant_id AND version_id = :version_id

-- name: state_retire
UPDATE state SET live = 0, closing = :closing, retired_ms = :now_ms WHERE tenant_id = :tenant_id AND version_id = :version_id

-- name: state_tombstone
UPDATE state SET live = 0, closing = :closing, status = 'tombstoned', tombstoned_ms = :now_ms, valid_to_ms = :valid_to_ms,
  closed_ms = coalesce(closed_ms, :now_ms)
WHERE tenant_id = :tenant_id AND version_id = :version_id

-- What the tombstone ended goes on; what was superseded before stays so.
-- name: state_restore
UPDATE state SET status = :status, tombstoned_ms = NULL, closing = :closing,
  closed_ms = CASE WHEN superseded_by IS NULL AND closed_ms = tombstoned_ms THEN NULL ELSE closed_ms END,
  valid_to_ms = CASE WHEN superseded_by IS NULL AND closed_ms = tombstoned_ms THEN declared_to_ms ELSE valid_to_ms END,
  live = CASE WHEN retired_ms IS NULL AND verification <> 'retracted' AND superseded_by IS NULL AND closed_ms = tombstoned_ms
    THEN 1 ELSE 0 END
WHERE tenant_id = :tenant_id AND version_id = :version_id AND erased = 0 AND tombstoned_ms IS NOT NULL
RETURNING live, visibility <> 'private'

-- name: state_erase
UPDATE state SET live = 0, closing = :closing, status = 'tombstoned', tombstoned_ms = coalesce(tombstoned_ms, :now_ms), erased = 1,
  user_key = NULL, agent_key = NULL, session_key = NULL, sameness_key = NULL,
  subject_key = NULL, relation_key = NULL, object_key = NULL, expires_ms = NULL, term_count = 0,
  at_ms = NULL, confidence = NULL, importance = NULL, space = :space
WHERE tenant_id = :tenant_id AND version_id = :version_id

-- name: version_erase
UPDATE version SET native = ''::bytea,
  cause = CASE WHEN cause IS NULL THEN NULL ELSE ''::bytea END,
  bounds = CASE WHEN bounds IS NULL THEN NULL ELSE ''::bytea END
WHERE tenant_id = :tenant_id AND version_id = :version_id

-- name: tombstone_put
INSERT INTO tombstone (tenant_id, version_id, native) VALUES (:tenant_id, :version_id, :native)
ON CONFLICT (tenant_id, version_id) DO UPDATE SET native = excluded.native

-- name: feedback_add
INSERT INTO feedback (tenant_id, version_id, at_ms, outcome, session_key)
VALUES (:tenant_id, :version_id, :at_ms, :outcome, :session_key)

-- name: feedback_erase
UPDATE feedback SET session_key = NULL WHERE tenant_id = :tenant_id AND version_id = :version_id

-- name: state_feedback
UPDATE state SET followed = followed + :followed, overridden = overridden + :overridden,
  ignored = ignored + :ignored, contradicted = contradicted + :contradicted
WHERE tenant_id = :tenant_id AND version_id = :version_id

-- name: change_add
INSERT INTO change (tenant_id, seq, type, version_id, at_ms)
VALUES (:tenant_id, :seq, :type, :version_id, :at_ms)

-- name: changes_after
SELECT c.seq, c.type, c.at_ms, c.version_id
FROM change c
{{state_changed}}
CROSS JOIN LATERAL (
  SELECT 1 FROM version v WHERE v.tenant_id = :tenant_id AND v.version_id = c.version_id OFFSET 0) v
WHERE c.tenant_id = :tenant_id AND c.seq > :after
ORDER BY c.seq LIMIT :limit

-- name: audit_add
INSERT INTO audit (tenant_id, seq, entry) VALUES (:tenant_id, :seq, :entry)

-- name: audit_prune
DELETE FROM audit WHERE tenant_id = :tenant_id AND seq <= :last

-- name: audit_after
SELECT seq, entry FROM audit WHERE tenant_id = :tenant_id AND seq > :after ORDER BY seq LIMIT :limit

-- name: audit_before
SELECT seq, entry FROM audit WHERE tenant_id = :tenant_id AND seq < :before ORDER BY seq DESC LIMIT :limit

-- Versions with an end of retention. A memory of which any version is on hold stays, and so does a version that was
-- forgotten at its end instead of erased, because something protects it.
-- fragment: to_be_erased
s.held = 0 AND (s.tombstoned_ms IS NULL OR s.tombstoned_ms < s.expires_ms)
  AND NOT EXISTS (SELECT 1 FROM state f WHERE f.tenant_id = s.tenant_id AND f.version_id = s.memory_id AND f.held = 1)
  AND NOT EXISTS (SELECT 1 FROM state k
    WHERE k.tenant_id = s.tenant_id AND k.memory_id = s.memory_id AND k.version_id <> k.memory_id AND k.held = 1)

-- name: expired
SELECT t.name, s.version_id FROM state s JOIN tenant t ON t.tenant_id = s.tenant_id
WHERE s.expires_ms <= :now_ms AND {{to_be_erased}}
ORDER BY s.expires_ms LIMIT :limit

-- name: next_expiry
SELECT min(s.expires_ms) FROM state s WHERE s.expires_ms IS NOT NULL AND {{to_be_erased}}

-- fragment: api_key
key_id, key_hash, name, tenant, scopes, created_ms, revoked_ms, expires_ms, used_ms, replaces, limits

-- name: api_key_add
INSERT INTO api_key (key_id, key_hash, name, tenant, scopes, created_ms, expires_ms, replaces, limits)
VALUES (:key_id, :key_hash, :name, :tenant, :scopes, :created_ms, :expires_ms, :replaces, :limits)

-- name: api_key_get
SELECT {{api_key}} FROM api_key WHERE key_id = :key_id

-- name: api_key_list
SELECT {{api_key}} FROM api_key ORDER BY created_ms, key_id

-- name: api_key_revoke
UPDATE api_key SET revoked_ms = :revoked_ms WHERE key_id = :key_id AND revoked_ms IS NULL RETURNING key_id

-- name: api_key_change
UPDATE api_key SET expires_ms = :expires_ms, limits = :limits
WHERE key_id = :key_id AND revoked_ms IS NULL RETURNING key_id

-- A key that expires sooner keeps its end.
-- name: api_key_end
UPDATE api_key SET expires_ms = :expires_ms
WHERE key_id = :key_id AND revoked_ms IS NULL AND (expires_ms IS NULL OR expires_ms > :expires_ms)

-- name: api_key_used
UPDATE api_key SET used_ms = :used_ms WHERE key_id = :key_id AND (used_ms IS NULL OR used_ms < :used_ms)

-- name: grant_add
INSERT INTO program_grant (grant_id, key_id, verbs, turn, expires_ms)
VALUES (:grant_id, :key_id, :verbs, 0, :expires_ms)

-- Delete expired grants, and all grants of one key but the `limit` used last.
-- name: grants_trim
DELETE FROM program_grant WHERE expires_ms <= :now_ms OR grant_id IN (
  SELECT grant_id FROM program_grant WHERE key_id = :key_id ORDER BY expires_ms DESC OFFSET :limit
)

-- name: grant_get
SELECT key_id, verbs, expires_ms FROM program_grant WHERE grant_id = :grant_id AND expires_ms > :now_ms

-- name: grant_turn
UPDATE program_grant SET turn = turn + 1, expires_ms = :expires_ms
WHERE grant_id = :grant_id AND turn = :turn AND expires_ms > :now_ms RETURNING key_id, verbs, expires_ms

-- name: grant_extend
UPDATE program_grant SET expires_ms = :expires_ms WHERE grant_id = :grant_id

-- name: grant_list
SELECT grant_id, key_id, verbs, expires_ms FROM program_grant WHERE expires_ms > :now_ms ORDER BY expires_ms DESC, grant_id

-- name: grants_move
UPDATE program_grant SET key_id = :new_key_id WHERE key_id = :key_id

-- name: grant_drop
DELETE FROM program_grant WHERE grant_id = :grant_id

-- name: token_revoke
INSERT INTO revoked_token (issuer, jti, revoked_ms) VALUES (:issuer, :jti, :revoked_ms) ON CONFLICT DO NOTHING

-- name: token_revoked
SELECT 1 FROM revoked_token WHERE issuer = :issuer AND jti = :jti

-- name: embedding_model_get
SELECT model_id, upto, holder, until_ms FROM embedding_model WHERE name = :name

-- name: embedding_model_lock
SELECT model_id, upto, holder, until_ms FROM embedding_model WHERE name = :name FOR UPDATE

-- name: embedding_model_add
INSERT INTO embedding_model (name) VALUES (:name) ON CONFLICT DO NOTHING

-- name: embedding_model_put
UPDATE embedding_model SET upto = :upto, holder = :holder, until_ms = :until_ms WHERE model_id = :model_id

-- name: embedding_models
SELECT model_id, name, upto FROM embedding_model

-- name: version_last
SELECT coalesce(max(version_id), 0) FROM version

-- name: versions_waiting
SELECT count(*) FROM (
  SELECT 1 FROM version v WHERE v.version_id > :after AND NOT EXISTS (
    SELECT 1 FROM vector x WHERE x.tenant_id = v.tenant_id AND x.version_id = v.version_id AND x.model_id = :model_id)
  LIMIT :most) w

-- name: versions_latest
SELECT v.version_id, t.name, t.tenant_id, v.key_id, 1
FROM (SELECT version_id, tenant_id, key_id FROM version WHERE version_id > :after ORDER BY version_id DESC LIMIT :newest) v
CROSS JOIN LATERAL (SELECT * FROM tenant t WHERE t.tenant_id = v.tenant_id OFFSET 0) t
CROSS JOIN LATERAL (
  SELECT s.live FROM state s WHERE s.tenant_id = v.tenant_id AND s.version_id = v.version_id OFFSET 0) s
WHERE s.live = 1 AND NOT EXISTS (
  SELECT 1 FROM vector x WHERE x.tenant_id = v.tenant_id AND x.version_id = v.version_id AND x.model_id = :model_id)
ORDER BY v.version_id DESC LIMIT :limit

-- name: versions_latest_of
SELECT s.version_id
FROM (SELECT tenant_id, version_id FROM state
      WHERE tenant_id = (SELECT tenant_id FROM tenant WHERE name = :tenant) AND version_id > :after AND live = 1
      ORDER BY version_id DESC LIMIT :limit) s
WHERE NOT EXISTS (
  SELECT 1 FROM vector x WHERE x.tenant_id = s.tenant_id AND x.version_id = s.version_id AND x.model_id = :model_id)

-- name: versions_to_embed
SELECT v.version_id, t.name, t.tenant_id, v.key_id, CASE WHEN EXISTS (
  SELECT 1 FROM vector x WHERE x.tenant_id = v.tenant_id AND x.version_id = v.version_id AND x.model_id = :model_id)
  THEN 0 ELSE s.live END
FROM version v
CROSS JOIN LATERAL (SELECT * FROM tenant t WHERE t.tenant_id = v.tenant_id OFFSET 0) t
CROSS JOIN LATERAL (
  SELECT s.live FROM state s WHERE s.tenant_id = v.tenant_id AND s.version_id = v.version_id OFFSET 0) s
WHERE v.version_id > :after AND v.version_id <= :upto ORDER BY v.version_id LIMIT :limit

-- Locks the states of both versions. An erasure of either one waits for this statement and then finds the vector, or it
-- was first, and no vector is written.
-- name: vector_add
WITH there AS (
  SELECT s.version_id FROM state s
  WHERE s.tenant_id = :tenant_id AND s.version_id IN (:version_id, :context_id) AND s.erased = 0
  ORDER BY s.version_id FOR SHARE
)
INSERT INTO vector (tenant_id, model_id, version_id, context_id, key_id, data, context_data)
SELECT :tenant_id, :model_id, :version_id, coalesce(c.version_id, 0), :key_id::text, :data::bytea,
  CASE WHEN :context_id <> 0 AND c.version_id IS NULL THEN NULL ELSE :context_data::bytea END
FROM there s LEFT JOIN there c ON c.version_id = :context_id
WHERE s.version_id = :version_id

-- name: vectors_after
SELECT place, version_id, context_id, key_id, data, context_data FROM vector
WHERE tenant_id = :tenant_id AND model_id = :model_id AND place > :after ORDER BY place LIMIT :limit

-- name: vectors_erased
SELECT place FROM vector WHERE tenant_id = :tenant_id AND version_id = 0

-- name: vectors_lost_context
SELECT place FROM vector
WHERE tenant_id = :tenant_id AND model_id = :model_id AND context_id < 0

-- name: vector_erase
UPDATE vector SET version_id = 0, context_id = 0, data = decode(repeat('00', length(data)), 'hex'),
  context_data = CASE WHEN context_data IS NULL THEN NULL ELSE decode(repeat('00', length(context_data)), 'hex') END
WHERE tenant_id = :tenant_id AND version_id = :version_id

-- name: vector_forget_context
UPDATE vector SET context_id = -1, context_data = decode(repeat('00', length(context_data)), 'hex')
WHERE tenant_id = :tenant_id AND context_id = :version_id AND context_id > 0

-- name: vectors_blank
UPDATE vector SET data = decode(repeat('00', length(data)), 'hex'), context_id = 0,
  context_data = CASE WHEN context_data IS NULL THEN NULL ELSE decode(repeat('00', length(context_data)), 'hex') END
WHERE (tenant_id, place) IN (SELECT tenant_id, place FROM vector WHERE model_id = :model_id LIMIT :limit)

-- name: vectors_drop
DELETE FROM vector WHERE (tenant_id, place) IN (SELECT tenant_id, place FROM vector WHERE model_id = :model_id LIMIT :limit)

-- name: embedding_model_drop
DELETE FROM embedding_model
WHERE model_id = :model_id AND NOT EXISTS (SELECT 1 FROM vector v WHERE v.model_id = :model_id)

-- name: version_key
SELECT v.tenant_id, v.key_id FROM version v JOIN tenant t ON t.tenant_id = v.tenant_id
WHERE v.version_id = :version_id AND t.name = :tenant

-- name: store_bytes
SELECT pg_database_size(current_database())

-- name: seal_state_rows
SELECT tenant_id, version_id, space FROM state
WHERE (tenant_id, version_id) > (:tenant_id, :after) AND live = 0 AND erased = 1 ORDER BY tenant_id, version_id LIMIT :limit

-- name: seal_state
UPDATE state SET space = :sealed WHERE tenant_id = :tenant_id AND version_id = :number

-- name: seal_tombstone_rows
SELECT tenant_id, version_id, native FROM tombstone
WHERE (tenant_id, version_id) > (:tenant_id, :after) ORDER BY tenant_id, version_id LIMIT :limit

-- name: seal_tombstone
UPDATE tombstone SET native = :sealed WHERE tenant_id = :tenant_id AND version_id = :number

-- name: seal_audit_rows
SELECT tenant_id, seq, entry FROM audit
WHERE (tenant_id, seq) > (:tenant_id, :after) ORDER BY tenant_id, seq LIMIT :limit

-- name: seal_audit
UPDATE audit SET entry = :sealed WHERE tenant_id = :tenant_id AND seq = :number
