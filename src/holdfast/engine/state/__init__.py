"""States at work: checkpoints, autosave, and states in a store."""
