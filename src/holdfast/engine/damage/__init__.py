"""Checks for damage, salvages what is intact, and records accepted losses."""
