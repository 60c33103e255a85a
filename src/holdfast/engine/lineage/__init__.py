"""Forks, rewinds, pins and flattening of runs; reads two histories for a diff."""
