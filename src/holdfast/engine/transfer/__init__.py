"""Takes runs out of a store and brings them in: export, import, copy and handoff."""
