"""File locks of a SQLite store: turns of writers, and which processes are alive."""
