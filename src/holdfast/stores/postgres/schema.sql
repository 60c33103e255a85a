-- A Holdfast store in a PostgreSQL database: a schema of its own, "holdfast" by default. Format version 2 (meta.format).
--
--   runs     one row a run: identity, status, body, head, and who holds it (fence … lease_s)
--   events   the journal: the truth. One row an event, in order of run and seq
--   blobs    content by address; touched_at tells prune what was referenced lately
--   records  small mutable things by (space, key): inbox letters, labels, pins, snapshots
--   meta     the format, the highest fence of a deleted run, and the store's id
--   waiting  the runs that somebody waits for: only for those does a write send a notification
--
--   journal, tool_counts, failures, model_costs: views for people with psql, see views.sql
--
-- Every row that is not checked otherwise has a checksum (crc), made and checked above this file: null in rows of format 1.
-- Names compare by code point (COLLATE "C"), as on every store. Bodies are opaque; by convention they are readable JSON.

CREATE TABLE runs (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run        text   COLLATE "C" NOT NULL UNIQUE,
  origin_seq bigint NOT NULL,             -- where a fork's own events begin; 0 for a run of its own
  head       bigint NOT NULL,             -- the last event's seq; an append moves it, guarded by itself and the fence
  fence      bigint NOT NULL DEFAULT 0,   -- never goes down
  owner      text   NOT NULL DEFAULT '',  -- empty: nobody holds it
  beat       bigint NOT NULL DEFAULT 0,
  since      double precision NOT NULL DEFAULT 0,
  beat_at    double precision NOT NULL DEFAULT 0,
  lease_s    double precision NOT NULL DEFAULT 0,
  revision   bigint NOT NULL DEFAULT 1,
  created_at double precision NOT NULL,
  status     text   NOT NULL,
  birth      text   NOT NULL,
  origin     text   COLLATE "C",
  agent      text   COLLATE "C" NOT NULL, -- the entry point that a worker runs it by; empty: none
  due_at     double precision,            -- when a worker is to take it, while nobody holds it; null: never
  body       bytea  NOT NULL,
  crc        bigint,                      -- of what never changes, and of the body
  status_crc bigint                       -- of the status
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
-- Room for new versions of a row on its own page: what an append changes is in no index, so no index is written.

CREATE INDEX runs_by_age ON runs (created_at, run);
CREATE INDEX runs_by_origin ON runs (origin) WHERE origin IS NOT NULL;
CREATE INDEX runs_due ON runs (agent, due_at, created_at, run) WHERE due_at IS NOT NULL AND owner = '';
CREATE INDEX runs_held ON runs (agent, run) WHERE owner <> '' AND agent <> '';

CREATE TABLE events (
  run   bigint NOT NULL,                  -- runs.id, without a foreign key: an append has just seen that row
  seq   bigint NOT NULL,
  at    double precision NOT NULL,
  kind  text   NOT NULL,
  name  text   NOT NULL,
  key   text   NOT NULL,
  fence bigint NOT NULL,
  body  bytea  NOT NULL,
  crc   bigint NOT NULL,
  chain bigint NOT NULL,                  -- over all before it, too; negative: an anchor; 0: of format 1, which had none
  PRIMARY KEY (run, seq)
);

CREATE TABLE blobs (
  address    text COLLATE "C" PRIMARY KEY,
  touched_at double precision NOT NULL,
  data       bytea NOT NULL
);
ALTER TABLE blobs ALTER COLUMN data SET STORAGE EXTERNAL;  -- compressed already

CREATE TABLE records (
  space    text   COLLATE "C" NOT NULL,
  key      text   COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  body     bytea  NOT NULL,
  crc      bigint,                        -- of all of it
  PRIMARY KEY (space, key)
);

CREATE TABLE meta (
  id     integer PRIMARY KEY CHECK (id = 1),
  format integer NOT NULL,
  fences bigint  NOT NULL,                -- a new run begins there, so that no late writer of a deleted one fits
  store  text    NOT NULL,                -- tells this store from every other
  crc    bigint                           -- of both
);

-- Nothing depends on it but how soon a waiter hears of something, so it need not survive a crash of the server.
CREATE UNLOGGED TABLE waiting (
  run   text COLLATE "C" PRIMARY KEY,
  until timestamptz NOT NULL
);
