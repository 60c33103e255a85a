"""Rules of comparing two points: histories, states and texts."""
