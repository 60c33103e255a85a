"""Rules of the queue: when a worker may take a run."""
