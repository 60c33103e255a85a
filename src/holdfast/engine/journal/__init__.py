"""Reads and writes a run's journal: appends under a lease, group commit, heartbeat, inbox, loading."""
