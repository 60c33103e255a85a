-- What a store's facts and events are found by, in a file beside it. Format version 2 (PRAGMA user_version).
--
--   documents     one row a findable thing: whose, of which content, how much it weighs, and where its vector is
--   packs         the vectors, many in a row: see vector_packs.py
--   facts_words   its terms, for words; contentless: the terms are there, the texts are not
--   events_words  the same of events
--   notes         how far each run's journal is indexed, and whether the facts are whole
--   meta          the counter that a sync bumps when it needs something to commit
--
-- All of it is derived. Deleted, it is made again from the store.

CREATE TABLE documents (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice: what is cached by it stays true
  space      TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  version    TEXT    NOT NULL,
  at         REAL    NOT NULL,
  uses       INTEGER NOT NULL,
  importance REAL    NOT NULL,
  tags       TEXT    NOT NULL,                   -- each between two separators; empty where there are none
  model      TEXT    NOT NULL,
  pack       INTEGER NOT NULL,                   -- which has its vector; 0 where there is none
  UNIQUE (space, key, version)
) STRICT;

CREATE TABLE packs (
  pack    INTEGER PRIMARY KEY,
  space   TEXT    NOT NULL,
  model   TEXT    NOT NULL,
  width   INTEGER NOT NULL,  -- bytes of one vector
  free    INTEGER NOT NULL,  -- slots without a document
  last_id INTEGER NOT NULL,  -- the highest id that was ever put here: what is new is in packs with a higher one
  ids     BLOB    NOT NULL,  -- eight bytes a slot: the document's id; 0 where it is free
  vectors BLOB    NOT NULL   -- width bytes a slot; zeros where it is free
) STRICT;
CREATE INDEX packs_new ON packs (space, model, width, last_id);
CREATE INDEX packs_free ON packs (space, model, width) WHERE free > 0;

CREATE VIRTUAL TABLE facts_words USING fts5 (
  words, content = '', contentless_delete = 1, tokenize = "ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'"
);
CREATE VIRTUAL TABLE events_words USING fts5 (
  words, content = '', contentless_delete = 1, tokenize = "ascii tokenchars '!#$%&()*+,-./:;<=>?@[\]^_`{|}~'"
);

CREATE TABLE notes (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

CREATE TABLE meta (syncs INTEGER NOT NULL) STRICT;
INSERT INTO meta (syncs) VALUES (0);
