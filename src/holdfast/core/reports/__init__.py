"""Rules of reports: progress, counts, statistics."""
