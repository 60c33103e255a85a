"""Damaged stores and runs: checks, salvage, accepted losses."""
