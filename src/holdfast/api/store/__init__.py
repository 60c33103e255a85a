"""The store handle, in parts: reading, settling, changing runs, files, facts, health."""
