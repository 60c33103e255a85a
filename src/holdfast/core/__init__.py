"""Decisions: pure functions over the nouns. They return views and plans; they never act, wait or print."""
