"""The wire format for PostgreSQL: the pipeline of appends, binary values, escaped NULs."""
