-- A Holdfast store in a PostgreSQL database: a schema of its own, "holdfast" by default. Format version 1 (meta.format).
--
--   runs     one row a run: identity, status, body, head, and who holds it (fence … lease_s)
--   events   the journal: the truth. One row an event, in order of run and seq
--   blobs    content by address; touched_at tells prune what was referenced lately
--   records  small mutable things by (space, key): inbox letters, labels, pins, snapshots
--   meta     the format, and the highest fence of a deleted run
--   waiting  the runs that somebody waits for: only for those does a write send a notification
--
--   journal, tool_counts, failures, model_costs: views for people with psql
--
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
  body       bytea  NOT NULL
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
  PRIMARY KEY (space, key)
);

CREATE TABLE meta (
  id     integer PRIMARY KEY CHECK (id = 1),
  format integer NOT NULL,
  fences bigint  NOT NULL                 -- a new run begins there, so that no late writer of a deleted one fits
);

-- Nothing depends on it but how soon a waiter hears of something, so it need not survive a crash of the server.
CREATE UNLOGGED TABLE waiting (
  run   text COLLATE "C" PRIMARY KEY,
  until timestamptz NOT NULL
);

-- A body as text; bytes that are none are shown escaped.
CREATE FUNCTION body_text(body bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  RETURN convert_from(body, 'UTF8');
EXCEPTION WHEN others THEN
  RETURN encode(body, 'escape');
END $$;

-- A body as JSON, for the views; null for one that is damaged. A NUL, which jsonb cannot hold, is shown as U+FFFD.
CREATE FUNCTION body_json(body bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  RETURN replace(convert_from(body, 'UTF8'), '\u0000', '\ufffd')::jsonb;
EXCEPTION WHEN others THEN
  RETURN NULL;
END $$;

CREATE FUNCTION json_number(value jsonb) RETURNS double precision LANGUAGE sql IMMUTABLE AS
  $$ SELECT CASE WHEN jsonb_typeof(value) = 'number' THEN (value #>> '{}')::double precision END $$;

-- What happened, in order, readable:  SELECT * FROM holdfast.journal WHERE run = 'debt-cycles';
CREATE VIEW journal AS
SELECT r.run                                                                            AS run,
       e.seq                                                                            AS seq,
       to_char(to_timestamp(e.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')  AS time,
       e.kind                                                                           AS kind,
       e.name                                                                           AS name,
       e.key                                                                            AS key,
       body_text(e.body)                                                                AS body
FROM runs r JOIN events e ON e.run = r.id
ORDER BY r.run, e.seq;

-- Which step ran most, failed most, took longest:  SELECT * FROM holdfast.tool_counts LIMIT 10;
-- Times are of calls that ended, in seconds, with the steps inside them.
CREATE VIEW tool_counts AS
SELECT name,
       count(*) FILTER (WHERE kind = 'step.started')                          AS started,
       count(*) FILTER (WHERE kind = 'step.finished' OR how = 'done')         AS finished,
       count(*) FILTER (WHERE kind = 'step.failed' OR how = 'failed')         AS failed,
       count(*) FILTER (WHERE kind = 'step.retried')                          AS retried,
       round(coalesce(sum(ms), 0)::numeric / 1000, 6)::double precision       AS total_s,
       round(coalesce(max(ms), 0)::numeric / 1000, 6)::double precision       AS longest_s
FROM (SELECT name, kind,
             CASE WHEN kind IN ('step.finished', 'step.failed') THEN json_number(body -> 'ms') END  AS ms,
             CASE WHEN kind = 'step.settled' AND body ->> 'via' IS DISTINCT FROM 'origin'
                  THEN body ->> 'how' END                                                           AS how
      FROM (SELECT name, kind,
                   -- kind first: an intent may hold large arguments, which nobody asks for here
                   CASE WHEN kind NOT IN ('step.started', 'step.retried') THEN body_json(body) END  AS body
            FROM events
            WHERE kind IN ('step.started', 'step.finished', 'step.failed', 'step.retried', 'step.settled')) AS told) AS calls
GROUP BY name
ORDER BY started DESC, finished DESC, name COLLATE "C";

-- Where runs failed:  SELECT * FROM holdfast.failures ORDER BY time DESC;
-- A step, or an attempt that ended by something else; of a crash, the error is the last thing known.
CREATE VIEW failures AS
SELECT run, seq, time, kind, name,
       body #>> '{error,type}'                                      AS type,
       coalesce(body #>> '{error,message}', body ->> 'last')        AS error
FROM (SELECT r.run, e.seq, e.kind, e.name, body_json(e.body) AS body,
             to_char(to_timestamp(e.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS time
      FROM runs r JOIN events e ON e.run = r.id
      WHERE e.kind IN ('step.failed', 'step.settled', 'attempt.ended', 'attempt.crashed')) AS ends
WHERE kind IN ('step.failed', 'attempt.crashed')
   OR (kind = 'step.settled' AND body ->> 'how' = 'failed'
       AND body ->> 'via' IS DISTINCT FROM 'origin')  -- that happened in the run it was forked from
   OR (kind = 'attempt.ended'
       AND body ->> 'error' IS NOT NULL
       AND coalesce(body ->> 'how', 'failed') IN ('failed', 'in_doubt', 'diverged')
       AND body ->> 'again' IS NULL)  -- what is tried again is listed as the step's
ORDER BY run, seq;

-- What model calls took and cost, by run and model:  SELECT model, sum(cost) FROM holdfast.model_costs GROUP BY model;
-- Sums are of what is known, and null where nothing is; the last two columns count the calls that they do not cover.
CREATE VIEW model_costs AS
SELECT run,
       coalesce(usage ->> 'model', '') COLLATE "C"                                  AS model,
       coalesce(usage ->> 'provider', '')                                           AS provider,
       count(*)                                                                     AS calls,
       sum(json_number(usage -> 'input_tokens'))::bigint                            AS input_tokens,
       sum(json_number(usage -> 'output_tokens'))::bigint                           AS output_tokens,
       sum(json_number(usage -> 'cached_tokens'))::bigint                           AS cached_tokens,
       round(sum(json_number(usage -> 'cost'))::numeric, 9)::double precision       AS cost,
       count(*) FILTER (WHERE json_number(usage -> 'cost') IS NULL)                 AS unknown_cost_calls,
       count(*) FILTER (WHERE json_number(usage -> 'input_tokens') IS NULL
                           OR json_number(usage -> 'output_tokens') IS NULL)        AS unknown_token_calls
FROM (SELECT run, nullif(body -> 'usage', 'null') AS usage
      FROM (SELECT r.run, e.kind, body_json(e.body) AS body
            FROM runs r JOIN events e ON e.run = r.id
            -- an outcome that somebody else reported has its fields in another order
            WHERE (e.kind = 'step.finished' AND substring(e.body FROM 1 FOR 9) = '{"usage":'::bytea)
               OR e.kind = 'step.settled') AS ends
      WHERE kind = 'step.finished'
         OR (body ->> 'how' = 'done' AND body ->> 'via' IS DISTINCT FROM 'origin')) AS answers
WHERE usage IS NOT NULL
GROUP BY 1, 2, 3
ORDER BY cost DESC NULLS LAST, run, model;
