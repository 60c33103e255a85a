"""Counts per step, which no noise moves: statements, transactions, syncs, reads, Python calls, allocations, instructions."""
