"""Premises at work: noted, probed, compared."""
