"""Numbers and texts for people: counts, times, progress, statistics."""
