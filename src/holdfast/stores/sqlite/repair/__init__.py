"""Checking and repairing a SQLite file: doctor, salvage, the WAL."""
