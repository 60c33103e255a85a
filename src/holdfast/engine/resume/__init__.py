"""Resuming: the resume plan, the recorded command and trust in it."""
