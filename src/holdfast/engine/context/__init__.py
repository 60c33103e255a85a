"""The context of a run, read from its store."""
