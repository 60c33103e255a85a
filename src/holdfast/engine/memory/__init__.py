"""Keeps facts that outlive runs, indexes them and the history of runs, and searches both."""
