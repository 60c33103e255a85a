"""Questions, approvals, waits, promises and messages at work."""
