"""Export, import, copy and handoff at work."""
