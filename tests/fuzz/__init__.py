"""Fuzzing of everything that reads what others wrote. ``python -m tests.fuzz --help``; a target a surface in ``surfaces``."""
