-- What a store's facts and events are found by, in a file beside it. Format version 1 (PRAGMA user_version).
--
--   documents     one row a findable thing: whose, of which content, how much it weighs, and its vector
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
  vector     BLOB    NOT NULL,
  UNIQUE (space, key, version)
) STRICT;

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
