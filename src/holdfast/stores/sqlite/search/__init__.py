"""The search index of a SQLite store: a file of its own beside it."""
