"""What goes over the line to PostgreSQL: the pipeline of appends, binary values, escaped NULs."""
