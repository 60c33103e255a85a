"""Saves and restores states: checkpoints, autosave, and states in a store."""
