"""Mutations of lines on which durability and safety rest, and the tests that must notice each: ``make mutants``."""
