-- Builds of 16 November 2026, before lists of values were functions.
CREATE FUNCTION listed(list text) RETURNS TABLE (value text, key bigint)
LANGUAGE sql STRICT IMMUTABLE PARALLEL SAFE ROWS 1 COST 100000
AS $$ SELECT e.value, e.key - 1 FROM jsonb_array_elements_text(list::jsonb) WITH ORDINALITY e (value, key) $$;

CREATE FUNCTION listed_numbers(list text) RETURNS TABLE (value bigint, key bigint)
LANGUAGE sql STRICT IMMUTABLE PARALLEL SAFE ROWS 1 COST 100000
AS $$ SELECT e.value::bigint, e.key - 1 FROM jsonb_array_elements_text(list::jsonb) WITH ORDINALITY e (value, key) $$;
