-- The one store. Tenant first in every key, with two exceptions that are explained where they stand.

CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE tenant (
  tenant_id     INTEGER PRIMARY KEY,
  name          TEXT NOT NULL UNIQUE,
  change_seq    INTEGER NOT NULL DEFAULT 0,
  audit_seq     INTEGER NOT NULL DEFAULT 0,
  audit_hash    TEXT,
  -- For ranking: statistics are per tenant, so that no score depends on what others keep.
  version_count INTEGER NOT NULL DEFAULT 0,
  term_count    INTEGER NOT NULL DEFAULT 0,
  -- Segments that were added to the word index.
  segment_seq   INTEGER NOT NULL DEFAULT 0,
  -- How often versions stopped being live, or were live again.
  closing_seq   INTEGER NOT NULL DEFAULT 0,
  -- For quotas: versions that are live, and the bytes of all documents that are not erased, items, runs and their logs.
  live_count    INTEGER NOT NULL DEFAULT 0,
  byte_count    INTEGER NOT NULL DEFAULT 0,
  -- How often something was erased: every process drops what it kept of the tenant's documents when it sees another.
  erasure_seq   INTEGER NOT NULL DEFAULT 0,
  -- Units of work, and versions ever written. Kept apart, too (heads.py), so that a database that lost some is noticed.
  unit_seq      INTEGER NOT NULL DEFAULT 0,
  append_seq    INTEGER NOT NULL DEFAULT 0,
  -- What its owner asks for beyond what the server does.
  rules         BLOB NOT NULL DEFAULT x''
);

-- Append-only, and a heap on purpose: rows are only ever added at the right end, so SQLite never moves one
-- between pages and leaves no stale copy behind that a hard forget could not reach. Every statement that
-- touches it also names the tenant.
CREATE TABLE version (
  version_id  INTEGER PRIMARY KEY,
  tenant_id   INTEGER NOT NULL,
  standard    TEXT NOT NULL,
  media_type  TEXT NOT NULL,
  name        TEXT NOT NULL,
  recorded_ms INTEGER NOT NULL,
  -- Which data key of the key ring the document is encrypted with; NULL means that it is not.
  key_id      TEXT,
  -- A keyed hash of the document as accepted, under a key that is not in the database.
  seal        BLOB,
  native      BLOB NOT NULL,
  cause       BLOB,
  -- What earlier versions of its memory bind it to and its own document does not say; encrypted like the document.
  bounds      BLOB
);

-- What may change, and what is filtered on. user, agent, session and sameness are keyed fingerprints, because
-- rows of this table do move between pages.
CREATE TABLE state (
  tenant_id      INTEGER NOT NULL,
  version_id     INTEGER NOT NULL,
  memory_id      INTEGER NOT NULL,
  space          TEXT NOT NULL,
  kind           TEXT NOT NULL,
  visibility     TEXT NOT NULL,
  status         TEXT NOT NULL,
  user_key       BLOB,
  agent_key      BLOB,
  session_key    BLOB,
  sameness_key   BLOB,
  subject_key    BLOB,
  relation_key   BLOB,
  object_key     BLOB,
  observed_ms    INTEGER NOT NULL,
  -- When its memory was last written, which no later version is before.
  updated_ms     INTEGER NOT NULL,
  valid_from_ms  INTEGER NOT NULL,
  declared_to_ms INTEGER,
  valid_to_ms    INTEGER,
  recorded_ms    INTEGER NOT NULL,
  -- The closing_seq of its tenant when it last stopped being live, or was live again; 0 of what always was.
  closing        INTEGER NOT NULL DEFAULT 0,
  closed_ms      INTEGER,
  retired_ms     INTEGER,
  tombstoned_ms  INTEGER,
  expires_ms     INTEGER,
  erased         INTEGER NOT NULL DEFAULT 0,
  superseded_by  INTEGER,
  exportable     INTEGER NOT NULL,
  -- Others are shown less of it than its owner is.
  redacted       INTEGER NOT NULL DEFAULT 0,
  held           INTEGER NOT NULL DEFAULT 0,
  review         INTEGER NOT NULL DEFAULT 0,
  verification   TEXT NOT NULL DEFAULT 'unverified',
  term_count     INTEGER NOT NULL,
  followed       INTEGER NOT NULL DEFAULT 0,
  overridden     INTEGER NOT NULL DEFAULT 0,
  ignored        INTEGER NOT NULL DEFAULT 0,
  contradicted   INTEGER NOT NULL DEFAULT 0,
  -- The field index: what a version says, field by field. No form: nothing to ask for.
  address        TEXT,
  form           TEXT,
  at_ms          INTEGER,
  confidence     REAL,
  importance     REAL,
  -- 1 while it is neither superseded nor retracted, forgotten, replaced or erased. Not a generated column: SQLite
  -- does not answer from an index alone what asks for one.
  live           INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (tenant_id, version_id)
) WITHOUT ROWID;

-- Every index is paid for by every write, so each answers several questions. User, agent and session have none: they
-- are facets.
-- The first version of a memory is found by its id.
CREATE INDEX state_memory ON state (tenant_id, memory_id, version_id) WHERE version_id <> memory_id;
-- What there is, last updated first, page by page: of a tenant, and of a space.
CREATE INDEX state_recent ON state (tenant_id, updated_ms, version_id, live, expires_ms);
CREATE INDEX state_listed ON state (tenant_id, space, updated_ms, version_id, live, expires_ms, visibility, kind);
CREATE INDEX state_sameness ON state (tenant_id, sameness_key)
  WHERE sameness_key IS NOT NULL AND retired_ms IS NULL AND superseded_by IS NULL AND status <> 'tombstoned';
-- Subject, relation and object. Three orders answer all six paths, and the single terms: s, sr and sro by the first,
-- r and ro by the second, o and os by the third.
-- The first also answers from itself alone what there is about a subject, the question asked most, and counts what there
-- is about each; so it has those without a subject, too.
CREATE INDEX triple_sro ON state
  (tenant_id, subject_key, relation_key, object_key, version_id, live, space, form, address, at_ms, expires_ms);
CREATE INDEX triple_ros ON state (tenant_id, relation_key, object_key, subject_key, version_id)
  WHERE relation_key IS NOT NULL;
CREATE INDEX triple_osr ON state (tenant_id, object_key, subject_key, relation_key, version_id)
  WHERE object_key IS NOT NULL;
-- The field index in the orders that are asked for; whole pages and counts are answered from these alone.
CREATE INDEX field_address ON state (tenant_id, live, space, form, address, expires_ms) WHERE address IS NOT NULL;
-- The last is asked for first, and equal ones are in the order of their addresses either way. Read backwards: what is
-- written is mostly the last, and SQLite adds at the end of an index what it would have to make room for elsewhere.
CREATE INDEX field_recent ON state (tenant_id, live, space, at_ms, address DESC, form, expires_ms)
  WHERE address IS NOT NULL;
CREATE INDEX field_confidence ON state (tenant_id, live, space, confidence DESC, address, form, expires_ms)
  WHERE address IS NOT NULL AND confidence IS NOT NULL;
CREATE INDEX field_importance ON state (tenant_id, live, space, importance DESC, address, form, expires_ms)
  WHERE address IS NOT NULL AND importance IS NOT NULL;
-- What ends, and what was written before it is true: few rows.
CREATE INDEX state_ends ON state (tenant_id, valid_to_ms, version_id) WHERE live = 1 AND valid_to_ms IS NOT NULL;
CREATE INDEX state_begins ON state (tenant_id, valid_from_ms, version_id)
  WHERE live = 1 AND valid_from_ms > recorded_ms;
-- What is not live any more: ranking leaves it out of every number.
CREATE INDEX state_closed ON state (tenant_id, version_id, valid_to_ms, status, erased, retired_ms) WHERE live = 0;
-- And what changed of that since somebody looked.
CREATE INDEX state_closing ON state (tenant_id, closing) WHERE closing > 0;
-- Few rows are in these, and none for long.
CREATE INDEX state_redacted ON state (tenant_id, updated_ms, version_id) WHERE redacted = 1;
-- The expiry sweep serves all tenants at once, so time comes first here.
CREATE INDEX state_expiry ON state (expires_ms)
  WHERE expires_ms IS NOT NULL AND held = 0 AND (tombstoned_ms IS NULL OR tombstoned_ms < expires_ms);

-- Names of any standard resolve here. version_id NULL means "whatever is the head of that memory".
CREATE TABLE alias (
  tenant_id  INTEGER NOT NULL,
  standard   TEXT NOT NULL,
  name       TEXT NOT NULL,
  memory_id  INTEGER NOT NULL,
  version_id INTEGER,
  -- Whether it ever stood for something public: only then may others find it.
  public     INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, standard, name)
) WITHOUT ROWID;

CREATE INDEX alias_version ON alias (tenant_id, version_id) WHERE version_id IS NOT NULL;
-- Whoever asks for a name of another owner's asks this index alone: a name that is not public and one that does not exist
-- are looked up in the same way, and nobody can tell them apart by the time it takes.
CREATE INDEX alias_public ON alias (standard, name, tenant_id) WHERE public = 1;

-- The further texts of a field index, for equality, and where and whose a version is; values are keyed fingerprints, and
-- so are names from outside.
CREATE TABLE facet (
  tenant_id  INTEGER NOT NULL,
  name       TEXT NOT NULL,
  value_key  BLOB NOT NULL,
  version_id INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, name, value_key, version_id)
) WITHOUT ROWID;
CREATE INDEX facet_version ON facet (tenant_id, version_id, name);

-- The numbers of a field index.
CREATE TABLE measure (
  tenant_id  INTEGER NOT NULL,
  name       TEXT NOT NULL,
  number     REAL NOT NULL,
  version_id INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, name, number, version_id)
) WITHOUT ROWID;
CREATE INDEX measure_version ON measure (tenant_id, version_id, name);

-- Documents that a tenant's services store besides its memories: templates, schedules, workspace files. 0002 gives the
-- table row ids.
CREATE TABLE item (
  tenant_id INTEGER NOT NULL,
  kind      TEXT NOT NULL,
  name      TEXT NOT NULL,
  value     BLOB NOT NULL,
  PRIMARY KEY (tenant_id, kind, name)
) WITHOUT ROWID;

-- Who has any of a kind: background work looks for that, whoever's it is.
CREATE INDEX item_kind ON item (kind, tenant_id);

-- Runs and what happened in them, in order; facts, so rows are never changed but for the state of a run.
CREATE TABLE run (
  tenant_id  INTEGER NOT NULL,
  run_id     TEXT NOT NULL,
  started_ms INTEGER NOT NULL,
  document   BLOB NOT NULL,
  PRIMARY KEY (tenant_id, run_id)
) WITHOUT ROWID;
CREATE INDEX run_started ON run (tenant_id, started_ms, run_id);

CREATE TABLE run_event (
  tenant_id INTEGER NOT NULL,
  run_id    TEXT NOT NULL,
  sequence  INTEGER NOT NULL,
  -- Where it stands among all events of the tenant.
  place     INTEGER NOT NULL,
  event     BLOB NOT NULL,
  PRIMARY KEY (tenant_id, run_id, sequence)
) WITHOUT ROWID;
CREATE UNIQUE INDEX run_event_place ON run_event (tenant_id, place);

-- What a run wrote itself: it sees that, and of everything else only what was there when it began.
CREATE TABLE run_write (
  tenant_id  INTEGER NOT NULL,
  run_id     TEXT NOT NULL,
  version_id INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, run_id, version_id)
) WITHOUT ROWID;

-- What is to be done at an instant, or once something is said. It is over, and soon deleted, when over_ms is set.
CREATE TABLE commitment (
  tenant_id     INTEGER NOT NULL,
  commitment_id TEXT NOT NULL,
  space         TEXT NOT NULL,
  due_ms        INTEGER,
  -- 1 when it waits for something to be said, and while nothing was looked at for it yet.
  waiting       INTEGER NOT NULL,
  fresh         INTEGER NOT NULL,
  over_ms       INTEGER,
  document      BLOB NOT NULL,
  PRIMARY KEY (tenant_id, commitment_id)
) WITHOUT ROWID;
CREATE INDEX commitment_space ON commitment (tenant_id, space);
CREATE INDEX commitment_waiting ON commitment (tenant_id, space, fresh) WHERE waiting = 1 AND over_ms IS NULL;
CREATE INDEX commitment_over ON commitment (tenant_id, over_ms) WHERE over_ms IS NOT NULL;
CREATE INDEX commitment_due ON commitment (tenant_id, due_ms) WHERE waiting = 0 AND over_ms IS NULL;
-- Background work looks for what is due, whoever's it is, so time comes first here.
CREATE INDEX commitment_next ON commitment (due_ms) WHERE due_ms IS NOT NULL AND over_ms IS NULL;

-- What may be done once, or so often in a while: names are keyed fingerprints.
CREATE TABLE use (
  tenant_id INTEGER NOT NULL,
  name_key  BLOB NOT NULL,
  at_ms     INTEGER NOT NULL,
  seq       INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, name_key, at_ms, seq)
) WITHOUT ROWID;

CREATE TABLE feedback (
  tenant_id   INTEGER NOT NULL,
  version_id  INTEGER NOT NULL,
  at_ms       INTEGER NOT NULL,
  outcome     TEXT NOT NULL,
  session_key BLOB
);
CREATE INDEX feedback_version ON feedback (tenant_id, version_id);

CREATE TABLE change (
  tenant_id  INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  type       TEXT NOT NULL,
  version_id INTEGER NOT NULL,
  at_ms      INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, seq)
) WITHOUT ROWID;

CREATE TABLE audit (
  tenant_id INTEGER NOT NULL,
  seq       INTEGER NOT NULL,
  entry     BLOB NOT NULL,
  PRIMARY KEY (tenant_id, seq)
) WITHOUT ROWID;

-- Credentials are looked up before a tenant is known.
CREATE TABLE api_key (
  key_id     TEXT PRIMARY KEY,
  key_hash   BLOB NOT NULL,
  name       TEXT NOT NULL,
  tenant     TEXT NOT NULL,
  scopes     TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  revoked_ms INTEGER
) WITHOUT ROWID;

-- Programs that a person let in with an API key (OAuth). `turn` counts what was handed out: a code, then refresh tokens.
CREATE TABLE program_grant (
  grant_id   TEXT PRIMARY KEY,
  key_id     TEXT NOT NULL,
  verbs      TEXT NOT NULL,
  turn       INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX program_grant_key ON program_grant (key_id, expires_ms);

CREATE TABLE revoked_token (
  issuer     TEXT NOT NULL,
  jti        TEXT NOT NULL,
  revoked_ms INTEGER NOT NULL,
  PRIMARY KEY (issuer, jti)
) WITHOUT ROWID;

-- The words of versions that follow one another, and what ranking needs to know of each: arrays of keyed fingerprints
-- and numbers. A row is never changed; sixteen of a size become one of the next.
CREATE TABLE segment (
  tenant_id     INTEGER NOT NULL,
  first_version INTEGER NOT NULL,
  edition       INTEGER NOT NULL,
  docs          INTEGER NOT NULL,
  -- By which rules its texts were cut into words: what is of older ones is made anew.
  analysis      INTEGER NOT NULL,
  -- Of a large one, whose parts are rows of their own: the first word of each part.
  firsts        BLOB NOT NULL,
  data          BLOB,
  PRIMARY KEY (tenant_id, first_version, edition)
) WITHOUT ROWID;

CREATE TABLE segment_part (
  tenant_id     INTEGER NOT NULL,
  first_version INTEGER NOT NULL,
  edition       INTEGER NOT NULL,
  number        INTEGER NOT NULL,
  data          BLOB NOT NULL,
  PRIMARY KEY (tenant_id, first_version, edition, number)
) WITHOUT ROWID;

-- Erased versions whose words are still to be taken out of their segments.
CREATE TABLE unindexed (
  tenant_id  INTEGER NOT NULL,
  version_id INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, version_id)
) WITHOUT ROWID;

-- Models that vectors were made by.
CREATE TABLE embedding_model (
  model_id INTEGER PRIMARY KEY,
  name     TEXT NOT NULL UNIQUE,
  -- Every version up to this one has been looked at: a queue that costs a writer nothing, and that nothing can lose.
  upto     INTEGER NOT NULL DEFAULT 0,
  -- Which process makes vectors now, and until when the others leave it to that one.
  holder   TEXT NOT NULL DEFAULT '',
  until_ms INTEGER NOT NULL DEFAULT 0
);

-- What versions mean, as a model tells: of a version by itself, and behind the end of the one before it. A heap, like
-- the versions: what is erased is overwritten where it stands. version_id 0: erased.
CREATE TABLE vector (
  place        INTEGER PRIMARY KEY,
  tenant_id    INTEGER NOT NULL,
  model_id     INTEGER NOT NULL,
  version_id   INTEGER NOT NULL,
  -- The version whose end the second one begins with; -1: it was erased. 0: the text stands alone, and the second one is
  -- another model's, if there is one.
  context_id   INTEGER NOT NULL,
  -- Encrypted with the key of the version, where that is encrypted.
  key_id       TEXT,
  data         BLOB NOT NULL,
  context_data BLOB
);
CREATE INDEX vector_model ON vector (tenant_id, model_id, place);
CREATE INDEX vector_version ON vector (tenant_id, version_id, place);
CREATE INDEX vector_context ON vector (tenant_id, context_id) WHERE context_id > 0;

-- What is left of an erased version. Apart from it, because the row of the version must keep its size: then SQLite
-- overwrites it where it stands. A row that shrinks or grows makes SQLite move its neighbours to other pages, and
-- stale copies of them remain that a later hard forget cannot reach.
CREATE TABLE tombstone (
  tenant_id  INTEGER NOT NULL,
  version_id INTEGER NOT NULL,
  native     BLOB NOT NULL,
  PRIMARY KEY (tenant_id, version_id)
) WITHOUT ROWID;
