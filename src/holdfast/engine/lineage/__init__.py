"""Forks, rewinds, kin, pins and comparisons at work."""
