"""Rules of forks and rewinds: lineage, points, and effects after a point."""
