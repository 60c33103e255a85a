-- The views, and the functions they need: for people with psql, no Holdfast needed.
--
-- They hold nothing, and are dropped and made again whenever they say something else: a migration runs this file too.
-- fields are Holdfast's own, data is what users, models and people said, an object by names (args, value, error, state …),
-- null where there is none. An event of format 1 had both in one object: there fields and data both show all of it, so that
-- the same query finds what it asks for in either.

DROP VIEW IF EXISTS model_costs, failures, tool_counts, journal;
DROP FUNCTION IF EXISTS body_text(bytea), body_json(bytea), body_fields(bytea), body_data(bytea), json_number(jsonb);

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

-- The two lines of a body: Holdfast's own fields, and the user's data. One of format 1 has both in one object: it is either.
CREATE FUNCTION body_fields(body bytea) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT AS
  $$ SELECT CASE position('\x0a'::bytea IN body) WHEN 0 THEN body
                 ELSE substring(body FROM 1 FOR position('\x0a'::bytea IN body) - 1) END $$;

CREATE FUNCTION body_data(body bytea) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT AS
  $$ SELECT CASE position('\x0a'::bytea IN body) WHEN 0 THEN body
                 ELSE CASE substring(body FROM position('\x0a'::bytea IN body) + 1 FOR 3)
                           WHEN '\x014846'::bytea THEN NULL  -- sealed: the store is encrypted
                           ELSE nullif(substring(body FROM position('\x0a'::bytea IN body) + 1), ''::bytea) END END $$;

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
       body_text(body_fields(e.body))                                                   AS fields,
       body_text(body_data(e.body))                                                     AS data
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
             CASE WHEN kind IN ('step.finished', 'step.failed') THEN json_number(fields -> 'ms') END  AS ms,
             CASE WHEN kind = 'step.settled' AND fields ->> 'via' IS DISTINCT FROM 'origin'
                  THEN fields ->> 'how' END                                                           AS how
      FROM (SELECT name, kind,
                   -- kind first: an intent of format 1 may hold large arguments, which nobody asks for here
                   CASE WHEN kind NOT IN ('step.started', 'step.retried')
                        THEN body_json(body_fields(body)) END                                       AS fields
            FROM events
            WHERE kind IN ('step.started', 'step.finished', 'step.failed', 'step.retried', 'step.settled')) AS told) AS calls
GROUP BY name
ORDER BY started DESC, finished DESC, name COLLATE "C";

-- Where runs failed:  SELECT * FROM holdfast.failures ORDER BY time DESC;
-- A step, or an attempt that ended by something else; of a crash, the error is the last thing known.
CREATE VIEW failures AS
SELECT run, seq, time, kind, name,
       data #>> '{error,type}'                                      AS type,
       coalesce(data #>> '{error,message}', fields ->> 'last')      AS error
FROM (SELECT r.run, e.seq, e.kind, e.name, body_json(body_fields(e.body)) AS fields, body_json(body_data(e.body)) AS data,
             to_char(to_timestamp(e.at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS time
      FROM runs r JOIN events e ON e.run = r.id
      WHERE e.kind IN ('step.failed', 'step.settled', 'attempt.ended', 'attempt.crashed')) AS ends
WHERE kind IN ('step.failed', 'attempt.crashed')
   OR (kind = 'step.settled' AND fields ->> 'how' = 'failed'
       AND fields ->> 'via' IS DISTINCT FROM 'origin')  -- that happened in the run it was forked from
   OR (kind = 'attempt.ended'
       AND data ->> 'error' IS NOT NULL
       AND coalesce(fields ->> 'how', 'failed') IN ('failed', 'in_doubt', 'diverged')
       AND fields ->> 'again' IS NULL)  -- what is tried again is listed as the step's
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
FROM (SELECT run, nullif(fields -> 'usage', 'null') AS usage
      FROM (SELECT r.run, e.kind, body_json(body_fields(e.body)) AS fields
            FROM runs r JOIN events e ON e.run = r.id
            -- an outcome that somebody else reported has its fields in another order
            WHERE (e.kind = 'step.finished' AND substring(e.body FROM 1 FOR 9) = '{"usage":'::bytea)
               OR e.kind = 'step.settled') AS ends
      WHERE kind = 'step.finished'
         OR (fields ->> 'how' = 'done' AND fields ->> 'via' IS DISTINCT FROM 'origin')) AS answers
WHERE usage IS NOT NULL
GROUP BY 1, 2, 3
ORDER BY cost DESC NULLS LAST, run, model;
