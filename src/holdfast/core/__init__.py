"""Decisions: pure functions over recorded data. They return views and plans, and never act, wait or print."""
