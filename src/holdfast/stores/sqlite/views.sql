-- The views: for people with any sqlite3 shell, no Holdfast needed.
--
-- They hold nothing, and are dropped and made again whenever they say something else: a migration runs this file too.
-- Everything reads an event through journal: fields are Holdfast's own, data is what users, models and people said, an
-- object by names (args, value, error, state …), null where there is none. An event of format 1 had both in one object: there
-- fields and data both show all of it, so that the same query finds what it asks for in either.

DROP VIEW IF EXISTS model_costs;
DROP VIEW IF EXISTS failures;
DROP VIEW IF EXISTS tool_counts;
DROP VIEW IF EXISTS journal;

-- What happened, in order, readable:  SELECT * FROM journal WHERE run = 'debt-cycles';
CREATE VIEW journal AS
SELECT r.run                                                AS run,
       e.seq                                                AS seq,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.at, 'unixepoch')    AS time,
       e.kind                                               AS kind,
       e.name                                               AS name,
       e.key                                                AS key,
       CAST(CASE instr(e.body, x'0a') WHEN 0 THEN e.body
                 ELSE substr(e.body, 1, instr(e.body, x'0a') - 1) END AS TEXT)               AS fields,
       CAST(CASE instr(e.body, x'0a') WHEN 0 THEN e.body
                 ELSE CASE substr(e.body, instr(e.body, x'0a') + 1, 3)
                           WHEN x'014846' THEN NULL  -- sealed: the store is encrypted
                           ELSE nullif(substr(e.body, instr(e.body, x'0a') + 1), x'') END END AS TEXT)  AS data
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
             CASE WHEN kind IN ('step.finished', 'step.failed') THEN json_extract(fields, '$.ms') END AS ms,
             CASE WHEN kind = 'step.settled' AND json_extract(fields, '$.via') IS NOT 'origin'
                  THEN json_extract(fields, '$.how') END                                              AS how
      FROM (SELECT name, kind,
                   -- kind first: an intent of format 1 may hold large arguments, which nobody asks for here
                   CASE WHEN kind IN ('step.started', 'step.retried') THEN NULL
                        WHEN json_valid(fields) THEN fields END AS fields
            FROM (SELECT name, kind, CAST(CASE instr(body, x'0a') WHEN 0 THEN body
                                               ELSE substr(body, 1, instr(body, x'0a') - 1) END AS TEXT) AS fields
                  FROM events
                  WHERE kind IN ('step.started', 'step.finished', 'step.failed', 'step.retried', 'step.settled'))))
GROUP BY name
ORDER BY started DESC, finished DESC, name;

-- Where runs failed:  SELECT * FROM failures ORDER BY time DESC;
-- A step, or an attempt that ended by something else; of a crash, the error is the last thing known.
CREATE VIEW failures AS
SELECT run, seq, time, kind, name,
       json_extract(data, '$.error.type')                                                AS type,
       coalesce(json_extract(data, '$.error.message'), json_extract(fields, '$.last'))   AS error
FROM (SELECT run, seq, time, kind, name,
             CASE WHEN json_valid(fields) THEN fields END AS fields,
             CASE WHEN json_valid(data) THEN data END     AS data
      FROM journal
      WHERE kind IN ('step.failed', 'step.settled', 'attempt.ended', 'attempt.crashed'))
WHERE kind IN ('step.failed', 'attempt.crashed')
   OR (kind = 'step.settled' AND json_extract(fields, '$.how') = 'failed'
       AND json_extract(fields, '$.via') IS NOT 'origin')  -- that happened in the run it was forked from
   OR (kind = 'attempt.ended'
       AND json_extract(data, '$.error') IS NOT NULL
       AND coalesce(json_extract(fields, '$.how'), 'failed') IN ('failed', 'in_doubt', 'diverged')
       AND json_extract(fields, '$.again') IS NULL);  -- what is tried again is listed as the step's

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
FROM (SELECT run, json_extract(fields, '$.usage') AS usage
      FROM (SELECT run, kind, CASE WHEN json_valid(fields) THEN fields END AS fields
            FROM journal
            -- an outcome that somebody else reported has its fields in another order
            WHERE (kind = 'step.finished' AND substr(fields, 1, 9) = '{"usage":') OR kind = 'step.settled')
      WHERE kind = 'step.finished'
         OR (json_extract(fields, '$.how') = 'done' AND json_extract(fields, '$.via') IS NOT 'origin'))
WHERE usage IS NOT NULL
GROUP BY 1, 2, 3
ORDER BY cost DESC, run, model;
