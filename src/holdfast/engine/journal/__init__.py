"""The journal under a lease: appends, group commit, heartbeat, inbox, loading."""
