"""File locks of a SQLite store: the writers' turn, and which processes are alive."""
