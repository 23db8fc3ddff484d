-- Queries on unencrypted vectors (migrations/0001_clear_vector.sql). Many numbers are sent and returned as one value:
-- an array in PostgreSQL's binary form (clear_matrix.py).

-- name: clear_model
SELECT m.model_id, coalesce((SELECT p.filled FROM clear_progress p WHERE p.model_id = m.model_id), 0)
FROM embedding_model m WHERE m.name = :name

-- name: clear_after
SELECT array_send(array_agg(c.place)), array_send(array_agg(c.version_id)), array_send(array_agg(c.context_id)),
  array_send(array_agg(c.has_second))
FROM (
  SELECT place, version_id, context_id, (second IS NOT NULL)::integer::bigint AS has_second FROM clear_vector
  WHERE tenant_id = :tenant_id AND model_id = :model_id AND size = :size AND place > :after ORDER BY place OFFSET 0) c

-- The vector of a question is sent as the sum of two half-precision vectors, which together keep its precision. Our table
-- `vector` hides pgvector's type of that name, so all vectors are halfvec.
-- fragment: question
(SELECT :question::real[]::halfvec AS q, :question_rest::real[]::halfvec AS q_rest OFFSET 0) q

-- Similarities to the question and to a typical question. The second vector of a row is of the text with its context
-- (context_id > 0), compared with the same question, or of a second model, compared with that model's vectors (`other`).
-- fragment: cosines
SELECT array_send(array_agg(c.place)),
  array_send(array_agg((-((c.own <#> q.q) + (c.own <#> q.q_rest)) * c.scale)::real)),
  array_send(array_agg((-((c.own <#> t.t) + (c.own <#> t.t_rest)) * c.scale)::real)),
  array_send(array_agg(coalesce(CASE WHEN c.context_id > 0 THEN -((c.second <#> q.q) + (c.second <#> q.q_rest))
    ELSE -((c.second <#> t.other) + (c.second <#> t.other_rest)) END * c.second_scale, 0)::real)),
  array_send(array_agg(coalesce(CASE WHEN c.context_id > 0 THEN -((c.second <#> t.t) + (c.second <#> t.t_rest))
    ELSE -((c.second <#> t.other_t) + (c.second <#> t.other_t_rest)) END * c.second_scale, 0)::real))
FROM {{question}}, (
  SELECT :typical::real[]::halfvec AS t, :typical_rest::real[]::halfvec AS t_rest,
    :other::real[]::halfvec AS other, :other_rest::real[]::halfvec AS other_rest,
    :other_typical::real[]::halfvec AS other_t, :other_typical_rest::real[]::halfvec AS other_t_rest OFFSET 0) t,
  clear_vector c
WHERE c.tenant_id = :tenant_id AND c.model_id = :model_id AND c.size = :size

-- name: clear_cosines
{{cosines}}

-- name: clear_cosines_of
{{cosines}} AND c.place = ANY(:places::bigint[])

-- name: clear_nearest
SELECT array_send(array_agg(n.place)) FROM (
  SELECT c.place FROM {{question}}, clear_vector c
  WHERE c.tenant_id = :tenant_id AND c.model_id = :model_id AND c.size = :size
  ORDER BY ((c.own <#> q.q) + (c.own <#> q.q_rest)) * c.scale, c.place LIMIT :limit) n

-- Returns a row if vectors of the model are still to be copied.
-- name: clear_is_behind
SELECT m.model_id FROM embedding_model m
CROSS JOIN (SELECT 1 FROM clear_progress WHERE model_id = 0) wanted
WHERE m.name = :name AND (
  NOT EXISTS (SELECT 1 FROM clear_progress p WHERE p.model_id = m.model_id AND p.filled = 1)
  OR EXISTS (
    SELECT 1 FROM vector v WHERE v.model_id = m.model_id
    AND v.place > (SELECT p.place FROM clear_progress p WHERE p.model_id = m.model_id)))

-- name: clear_progress
SELECT coalesce((SELECT p.place FROM clear_progress p WHERE p.model_id = :model_id), 0),
  coalesce((SELECT p.filled FROM clear_progress p WHERE p.model_id = :model_id), 0)
FROM clear_progress WHERE model_id = 0

-- name: clear_progress_put
INSERT INTO clear_progress (model_id, place, filled) VALUES (:model_id, :place, :filled)
ON CONFLICT (model_id) DO UPDATE SET place = excluded.place, filled = excluded.filled

-- name: clear_progress_drop
DELETE FROM clear_progress WHERE model_id = :model_id

-- name: clear_next
SELECT v.tenant_id, t.name, v.place, v.version_id, v.context_id, v.key_id, v.data, v.context_data FROM vector v
CROSS JOIN LATERAL (SELECT t.name FROM tenant t WHERE t.tenant_id = v.tenant_id OFFSET 0) t
WHERE v.model_id = :model_id AND v.place > :after ORDER BY v.place LIMIT :limit

-- Locks the vector and its key. An erasure of the vector, or a destruction of its key, waits for this statement and then
-- finds the copy, or it was first, and no copy is written.
-- name: clear_add
WITH there AS (
  SELECT v.context_id FROM vector v
  WHERE v.tenant_id = :tenant_id AND v.place = :place AND v.version_id = :version_id FOR SHARE
), locked AS (
  SELECT k.wrapped FROM data_key k WHERE k.key_id = :key_id::text FOR SHARE
)
INSERT INTO clear_vector (tenant_id, model_id, place, version_id, context_id, key_id, size, scale, own, second_scale, second)
SELECT :tenant_id, :model_id, :place, :version_id, v.context_id, :key_id::text, :size, :scale::double precision,
  :own::real[]::halfvec,
  CASE WHEN v.context_id = :context_id THEN :second_scale::double precision END,
  CASE WHEN v.context_id = :context_id THEN :second::real[]::halfvec END
FROM there v WHERE NOT EXISTS (SELECT 1 FROM locked WHERE wrapped = ''::bytea)
ON CONFLICT DO NOTHING

-- Count the copies, the vectors that should have one, and the copies whose vector is gone.
-- name: clear_counts
SELECT (SELECT count(*) FROM clear_vector), (SELECT count(*) FROM vector WHERE version_id > 0),
  (SELECT count(*) FROM clear_vector c WHERE NOT EXISTS (
    SELECT 1 FROM vector v WHERE v.tenant_id = c.tenant_id AND v.place = c.place AND v.version_id = c.version_id)),
  (SELECT extversion FROM pg_extension WHERE extname = 'vector')
