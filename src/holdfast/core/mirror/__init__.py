"""Mirrors: how the id of a run becomes a directory, and a recorded state plain JSON."""
