"""Runs kept for another framework: chains of checkpoints, shared holds."""
