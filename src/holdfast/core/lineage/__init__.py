"""Rules of forks and rewinds: names of points, and effects after a point."""
