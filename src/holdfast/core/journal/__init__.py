"""Rules of a run's journal: the fold, its snapshots, names, and the status of a run."""
