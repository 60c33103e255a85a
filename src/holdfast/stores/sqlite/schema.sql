-- A Holdfast store in one SQLite file. Format version 1 (PRAGMA user_version).
--
--   runs     one row a run: identity, status, body, and who holds it (fence … lease_s)
--   events   the journal: the truth. One row an event, in order of run and seq; a run's head is its highest seq
--   blobs    content by address; touched_at tells prune what was referenced lately
--   records  small mutable things by (space, key): inbox letters, labels, pins, snapshots
--   meta     the counter that a sync bumps when it needs something to commit, and the highest fence of a deleted run
--
--   journal, tool_counts, failures, model_costs   views for people with the sqlite3 shell
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
  crc   INTEGER NOT NULL
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
  UNIQUE (space, key)
) STRICT;

CREATE TABLE meta (
  id     INTEGER PRIMARY KEY CHECK (id = 1),
  syncs  INTEGER NOT NULL,
  fences INTEGER NOT NULL                 -- a new run begins there, so that no late writer of a deleted one fits
) STRICT;

INSERT INTO meta VALUES (1, 0, 0);

-- What happened, in order, readable:  SELECT * FROM journal WHERE run = 'debt-cycles';
CREATE VIEW journal AS
SELECT r.run                                                AS run,
       e.seq                                                AS seq,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.at, 'unixepoch')    AS time,
       e.kind                                               AS kind,
       e.name                                               AS name,
       e.key                                                AS key,
       CAST(e.body AS TEXT)                                 AS body
FROM runs r JOIN events e ON e.id BETWEEN r.id << 32 AND (r.id << 32) | 4294967295
ORDER BY r.run, e.seq;

-- Which step ran most, failed most, took longest:  SELECT * FROM tool_counts LIMIT 10;
-- Times are of calls that ended, in seconds, with the steps inside them.
CREATE VIEW tool_counts AS
SELECT name,
       sum(kind = 'step.started')                      AS started,
       sum(kind = 'step.finished' OR how IS 'done')    AS finished,
       sum(kind = 'step.failed' OR how IS 'failed')    AS failed,
       sum(kind = 'step.retried')                      AS retried,
       round(total(ms) / 1000, 6)                      AS total_s,
       round(coalesce(max(ms), 0.0) / 1000, 6)         AS longest_s
FROM (SELECT name, kind,
             CASE WHEN kind IN ('step.finished', 'step.failed') THEN json_extract(body, '$.ms') END AS ms,
             CASE WHEN kind = 'step.settled' AND json_extract(body, '$.via') IS NOT 'origin'
                  THEN json_extract(body, '$.how') END                                              AS how
      FROM (SELECT name, kind,
                   -- kind first: an intent may hold large arguments, which nobody asks for here
                   CASE WHEN kind IN ('step.started', 'step.retried') THEN NULL
                        WHEN json_valid(CAST(body AS TEXT)) THEN CAST(body AS TEXT) END AS body
            FROM events
            WHERE kind IN ('step.started', 'step.finished', 'step.failed', 'step.retried', 'step.settled')))
GROUP BY name
ORDER BY started DESC, finished DESC, name;

-- Where runs failed:  SELECT * FROM failures ORDER BY time DESC;
-- A step, or an attempt that ended by something else; of a crash, the error is the last thing known.
CREATE VIEW failures AS
SELECT run, seq, time, kind, name,
       json_extract(body, '$.error.type')                                                AS type,
       coalesce(json_extract(body, '$.error.message'), json_extract(body, '$.last'))     AS error
FROM (SELECT run, seq, time, kind, name, CASE WHEN json_valid(body) THEN body END AS body
      FROM journal
      WHERE kind IN ('step.failed', 'step.settled', 'attempt.ended', 'attempt.crashed'))
WHERE kind IN ('step.failed', 'attempt.crashed')
   OR (kind = 'step.settled' AND json_extract(body, '$.how') = 'failed'
       AND json_extract(body, '$.via') IS NOT 'origin')  -- that happened in the run it was forked from
   OR (kind = 'attempt.ended'
       AND json_extract(body, '$.error') IS NOT NULL
       AND coalesce(json_extract(body, '$.how'), 'failed') IN ('failed', 'in_doubt', 'diverged')
       AND json_extract(body, '$.again') IS NULL);  -- what is tried again is listed as the step's

-- What model calls took and cost, by run and model:  SELECT model, sum(cost) FROM model_costs GROUP BY model;
-- Sums are of what is known, and null where nothing is; the last two columns count the calls that they do not cover.
CREATE VIEW model_costs AS
SELECT run,
       coalesce(json_extract(usage, '$.model'), '')                     AS model,
       coalesce(json_extract(usage, '$.provider'), '')                  AS provider,
       count(*)                                                         AS calls,
       sum(json_extract(usage, '$.input_tokens'))                       AS input_tokens,
       sum(json_extract(usage, '$.output_tokens'))                      AS output_tokens,
       sum(json_extract(usage, '$.cached_tokens'))                      AS cached_tokens,
       round(sum(json_extract(usage, '$.cost')), 9)                     AS cost,
       sum(json_extract(usage, '$.cost') IS NULL)                       AS unknown_cost_calls,
       sum(json_extract(usage, '$.input_tokens') IS NULL
           OR json_extract(usage, '$.output_tokens') IS NULL)           AS unknown_token_calls
FROM (SELECT run, json_extract(body, '$.usage') AS usage
      FROM (SELECT run, kind, CASE WHEN json_valid(body) THEN body END AS body
            FROM journal
            -- an outcome that somebody else reported has its fields in another order
            WHERE (kind = 'step.finished' AND substr(body, 1, 9) = '{"usage":') OR kind = 'step.settled')
      WHERE kind = 'step.finished'
         OR (json_extract(body, '$.how') = 'done' AND json_extract(body, '$.via') IS NOT 'origin'))
WHERE usage IS NOT NULL
GROUP BY 1, 2, 3
ORDER BY cost DESC, run, model;
