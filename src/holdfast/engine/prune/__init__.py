"""Prunes and erases runs."""
