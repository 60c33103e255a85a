"""Calls at work: identity, intent, call, outcome, and effects in doubt."""
