"""Keeps runs for another framework: chains of checkpoints, shared holds, shared lists."""
