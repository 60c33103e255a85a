"""Rules of the files that a run made."""
