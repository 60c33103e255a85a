"""Mirrors: keeps the latest state and context of each run as files."""
