"""Asks people, waits, and exchanges promises and messages with other runs."""
