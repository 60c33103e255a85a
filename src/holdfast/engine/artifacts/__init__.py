"""Writes, records, compares and restores the files of a run."""
