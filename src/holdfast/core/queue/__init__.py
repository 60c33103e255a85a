"""Rules of the queue: when a worker takes a run."""
