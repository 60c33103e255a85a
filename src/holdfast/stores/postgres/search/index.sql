-- What a store's facts and events are found by, in the store's schema. Format version 1 (search_meta.format).
--
--   search_documents  one row a findable thing: whose, of which content, how much it weighs, and its terms
--   search_vectors    the vectors of those that have one; apart, so that whoever looks for words does not read them
--   search_counts     how many documents and terms there are, by space and model: what BM25 needs to know at every query
--   search_notes      how far each run's journal is indexed, and whether the facts are whole
--   search_meta       the format
--
-- All of it is derived. Dropped, it is made again from the store. No statistics are gathered of what was written by people: what
-- is deleted here is to be gone, and the server's statistics would keep samples of it.

CREATE SEQUENCE search_ids;
CREATE TABLE search_documents (
  space      text   COLLATE "C" NOT NULL,
  id         bigint NOT NULL DEFAULT nextval('search_ids'),
  key        text   COLLATE "C" NOT NULL,
  version    text   COLLATE "C" NOT NULL,
  at         double precision NOT NULL,
  uses       bigint NOT NULL,
  importance double precision NOT NULL,
  tags       text   NOT NULL,              -- each between two separators; empty where there are none
  model      text   COLLATE "C" NOT NULL,  -- of its vector; empty where there is none
  length     integer NOT NULL,             -- how many terms it has, those included that the next column has no room for
  words      tsvector NOT NULL,            -- made of our own terms: no dictionary of the server's knows of them
  PRIMARY KEY (space, id),
  UNIQUE (space, key, version)
) PARTITION BY LIST (space);
-- Room for another version of a row on its own page: that something was of use is in no index, so no index is written.
CREATE TABLE search_facts PARTITION OF search_documents FOR VALUES IN ('facts') WITH (fillfactor = 85);
CREATE TABLE search_events PARTITION OF search_documents FOR VALUES IN ('events') WITH (fillfactor = 95);
ALTER TABLE search_documents
  ALTER COLUMN key SET STATISTICS 0, ALTER COLUMN version SET STATISTICS 0, ALTER COLUMN tags SET STATISTICS 0,
  ALTER COLUMN words SET STATISTICS 0;
-- What waits to be sorted in is looked through by every query: a short list of it is what makes writing twice as fast.
CREATE INDEX search_facts_words ON search_facts USING gin (words) WITH (gin_pending_list_limit = 256);
CREATE INDEX search_events_words ON search_events USING gin (words) WITH (gin_pending_list_limit = 256);

CREATE SEQUENCE search_numbers;
CREATE TABLE search_vectors (
  space    text   COLLATE "C" NOT NULL,
  number   bigint NOT NULL DEFAULT nextval('search_numbers'),  -- given under the lock of a count: they grow as they become visible
  document bigint NOT NULL,                                    -- search_documents.id
  model    text   COLLATE "C" NOT NULL,                        -- with the number of its dimensions before it
  vector   {vector} NOT NULL,
  PRIMARY KEY (space, document)
) PARTITION BY LIST (space);
CREATE TABLE search_facts_vectors PARTITION OF search_vectors FOR VALUES IN ('facts');
CREATE TABLE search_events_vectors PARTITION OF search_vectors FOR VALUES IN ('events');
ALTER TABLE search_vectors ALTER COLUMN vector SET STATISTICS 0, ALTER COLUMN vector SET STORAGE MAIN;
CREATE INDEX search_vectors_by_number ON search_vectors (space, model, number);

CREATE TABLE search_counts (
  space     text   COLLATE "C" NOT NULL,
  model     text   COLLATE "C" NOT NULL,
  documents bigint NOT NULL,
  terms     bigint NOT NULL,
  changes   bigint NOT NULL,  -- how many documents ever came or went: what was counted before is about true for a while
  PRIMARY KEY (space, model)
) WITH (fillfactor = 10);

CREATE TABLE search_notes (
  name  text COLLATE "C" PRIMARY KEY,
  value text NOT NULL
);
ALTER TABLE search_notes ALTER COLUMN name SET STATISTICS 0, ALTER COLUMN value SET STATISTICS 0;

CREATE TABLE search_meta (
  id     integer PRIMARY KEY CHECK (id = 1),
  format integer NOT NULL
);

-- How often a word is in a document. PostgreSQL has no such function, but its rank by one word, with all weights alike, is the sum of
-- 1/n² over the word's occurrences (over π²/6), and the steps between those sums tell which one it is.
CREATE FUNCTION search_times(words tsvector, word tsquery) RETURNS double precision LANGUAGE sql IMMUTABLE AS
  $$ SELECT width_bucket(ts_rank('{1,1,1,1}', words, word)::double precision, '{steps}'::double precision[])::double precision $$;

-- How often words stand beside each other in a document: where they would all begin at the same place. Further places of a word
-- that is there more than 255 times are those of the word with a number behind it.
CREATE FUNCTION search_times_phrase(words tsvector, phrase text[]) RETURNS double precision LANGUAGE sql IMMUTABLE AS $$
  SELECT count(*)::double precision
  FROM (SELECT FROM unnest(words) AS l, unnest(l.positions) AS p, unnest(phrase) WITH ORDINALITY AS w (word, place)
        WHERE split_part(l.lexeme, E'\x02', 1) = w.word
        GROUP BY p - w.place
        HAVING count(DISTINCT w.place) = cardinality(phrase)) AS beginnings
$$;
