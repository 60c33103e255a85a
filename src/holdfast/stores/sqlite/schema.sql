-- A Holdfast store in one SQLite file. Format version 2 (PRAGMA user_version).
--
--   runs     one row a run: identity, status, body, and who holds it (fence … lease_s)
--   events   the journal: the truth. One row an event, in order of run and seq; a run's head is its highest seq
--   blobs    content by address; touched_at tells prune what was referenced lately
--   records  small mutable things by (space, key): inbox letters, labels, pins, snapshots
--   meta     the counter that a sync bumps when it needs something to commit, the highest fence of a deleted run, and the
--            store's id
--
-- Every row that is not checked otherwise has a checksum (crc), made and checked above this file: null in rows of format 1.
--
--   journal, tool_counts, failures, model_costs   views for people with the sqlite3 shell, see views.sql
--
-- Bodies are opaque to the store; by convention they are readable JSON, which is what the views rely on.
-- All tables have rowids: WITHOUT ROWID was measured at 1.3 to 1.6 times the cost of an append.

CREATE TABLE runs (
  id         INTEGER PRIMARY KEY,
  run        TEXT    NOT NULL UNIQUE,
  origin_seq INTEGER NOT NULL,            -- where a fork's own events begin; 0 for a run of its own
  fence      INTEGER NOT NULL DEFAULT 0,  -- never goes down
  owner      TEXT    NOT NULL DEFAULT '', -- empty: nobody holds it
  beat       INTEGER NOT NULL DEFAULT 0,
  since      REAL    NOT NULL DEFAULT 0,
  beat_at    REAL    NOT NULL DEFAULT 0,
  lease_s    REAL    NOT NULL DEFAULT 0,
  revision   INTEGER NOT NULL DEFAULT 1,
  created_at REAL    NOT NULL,
  status     TEXT    NOT NULL,
  birth      TEXT    NOT NULL,
  origin     TEXT,
  agent      TEXT    NOT NULL,            -- the entry point that a worker runs it by; empty: none
  due_at     REAL,                        -- when a worker is to take it, while nobody holds it; null: never
  crc        INTEGER,                     -- of what never changes, and of the body
  status_crc INTEGER,                     -- of the status
  body       BLOB    NOT NULL             -- last, so that what an append looks up comes before it on the page
) STRICT;

CREATE INDEX runs_by_age ON runs (created_at, run);
CREATE INDEX runs_by_origin ON runs (origin) WHERE origin IS NOT NULL;
CREATE INDEX runs_due ON runs (agent, due_at, created_at, run) WHERE due_at IS NOT NULL AND owner = '';
CREATE INDEX runs_held ON runs (agent, run) WHERE owner <> '' AND agent <> '';

CREATE TABLE events (
  id    INTEGER PRIMARY KEY,              -- the run's id and the seq in one: (run << 32) | seq
  run   INTEGER GENERATED ALWAYS AS (id >> 32) VIRTUAL,
  seq   INTEGER GENERATED ALWAYS AS (id & 4294967295) VIRTUAL,
  at    REAL    NOT NULL,
  kind  TEXT    NOT NULL,
  name  TEXT    NOT NULL,
  key   TEXT    NOT NULL,
  fence INTEGER NOT NULL,
  body  BLOB    NOT NULL,
  crc   INTEGER NOT NULL,
  chain INTEGER NOT NULL DEFAULT 0        -- over all before it, too; negative: an anchor; 0: of format 1, which had none
) STRICT;

CREATE TABLE blobs (
  id         INTEGER PRIMARY KEY,
  address    TEXT    NOT NULL UNIQUE,
  touched_at REAL    NOT NULL,
  data       BLOB    NOT NULL
) STRICT;

CREATE TABLE records (
  id       INTEGER PRIMARY KEY,
  space    TEXT    NOT NULL,
  key      TEXT    NOT NULL,
  revision INTEGER NOT NULL,
  body     BLOB    NOT NULL,
  crc      INTEGER,                       -- of all of it
  UNIQUE (space, key)
) STRICT;

CREATE TABLE meta (
  id     INTEGER PRIMARY KEY CHECK (id = 1),
  syncs  INTEGER NOT NULL,
  fences INTEGER NOT NULL,                -- a new run begins there, so that no late writer of a deleted one fits
  store  TEXT    NOT NULL,                -- tells this store from every other
  crc    INTEGER                          -- of both
) STRICT;

INSERT INTO meta (id, syncs, fences, store) VALUES (1, 0, 0, lower(hex(randomblob(16))));
