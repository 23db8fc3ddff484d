-- Vectors in clear, for whoever has PostgreSQL compare them (vector_search = pgvector; ADR 0017). Not part of the layout
-- of a store: made when that is first asked for, emptied when it is not wanted any more, and neither moved nor backed up.
-- What erases a vector erases it here, too, whichever node does it and whatever that was told: by triggers.

-- A copy of `vector`. A number was stored as a byte, times a scale: the same bytes, each as half a float, hold it exactly.
CREATE TABLE clear_vector (
  tenant_id    BIGINT NOT NULL,
  model_id     BIGINT NOT NULL,
  place        BIGINT NOT NULL,
  version_id   BIGINT NOT NULL,
  context_id   BIGINT NOT NULL,
  key_id       TEXT COLLATE "C",
  -- How many numbers: only those of one size can be compared.
  size         INTEGER NOT NULL,
  scale        REAL NOT NULL,
  own          halfvec NOT NULL,
  second_scale REAL,
  second       halfvec,
  PRIMARY KEY (tenant_id, model_id, place)
-- In the row itself: to look for each elsewhere takes longer than to compare it.
) WITH (toast_tuple_target = 8160);
CREATE INDEX clear_vector_key ON clear_vector (key_id) WHERE key_id IS NOT NULL;

-- Up to which place all vectors of a model have been copied, and whether it ever was all of them. Model 0: it is wanted.
CREATE TABLE clear_progress (
  model_id BIGINT PRIMARY KEY,
  place    BIGINT NOT NULL,
  filled   SMALLINT NOT NULL
);

-- What is to be copied, whoever's it is.
CREATE INDEX vector_place ON vector (model_id, place);

CREATE FUNCTION clear_vector_erase() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' OR NEW.version_id = 0 OR NEW.data <> OLD.data THEN
    DELETE FROM clear_vector WHERE tenant_id = OLD.tenant_id AND model_id = OLD.model_id AND place = OLD.place;
  ELSIF NEW.context_id <> OLD.context_id THEN
    UPDATE clear_vector SET context_id = NEW.context_id, second_scale = NULL, second = NULL
    WHERE tenant_id = OLD.tenant_id AND model_id = OLD.model_id AND place = OLD.place;
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER clear_vector_erase AFTER UPDATE OR DELETE ON vector
FOR EACH ROW EXECUTE FUNCTION clear_vector_erase();

CREATE FUNCTION clear_vector_lock() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM clear_vector WHERE key_id = OLD.key_id;
  RETURN NULL;
END
$$;
-- A key that is destroyed has no bytes any more.
CREATE TRIGGER clear_vector_lock AFTER UPDATE ON data_key
FOR EACH ROW WHEN (NEW.wrapped = ''::bytea AND OLD.wrapped <> ''::bytea) EXECUTE FUNCTION clear_vector_lock();

-- Who sees which rows: as of all tables (sql/postgres/migrations/0001_store.sql).
ALTER TABLE clear_vector ENABLE ROW LEVEL SECURITY;
ALTER TABLE clear_vector FORCE ROW LEVEL SECURITY;
CREATE POLICY of_system ON clear_vector USING ((SELECT current_setting('memoranda.system', true) = 'on'));
CREATE POLICY of_tenant ON clear_vector
  USING (tenant_id = (SELECT nullif(current_setting('memoranda.tenant_id', true), '')::bigint));
ALTER TABLE clear_progress ENABLE ROW LEVEL SECURITY;
ALTER TABLE clear_progress FORCE ROW LEVEL SECURITY;
CREATE POLICY of_system ON clear_progress USING ((SELECT current_setting('memoranda.system', true) = 'on'));
CREATE POLICY of_any_tenant ON clear_progress FOR SELECT
  USING ((SELECT nullif(current_setting('memoranda.tenant', true), '')) IS NOT NULL);
